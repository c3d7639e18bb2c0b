/** `completion`: what the shells offer are the commands and options that there are. */
import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { runCommand } from '../../support/run-command.ts'

const scriptOf = async (shell: string) => (await runCommand(['completion', shell], {})).stdout

/** What bash offers for the last of the words. */
function offered(script: string, ...words: readonly string[]): readonly string[] {
  const typed = ['intake-sync', ...words].map((word) => `'${word}'`).join(' ')
  const input = `${script}
COMP_WORDS=(${typed}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _intake_sync
printf '%s\\n' "\${COMPREPLY[@]}"`
  const { status, stdout, stderr } = spawnSync('bash', ['--norc'], { input, encoding: 'utf8' })
  expect([status, stderr]).toEqual([0, ''])
  return stdout.split('\n').filter((line) => line !== '')
}

const helpOf = async (...words: string[]) => (await runCommand([...words, '--help'], {})).stdout
const namesIn = (help: string) => [...help.matchAll(/^ {2}([a-z][\w-]*) /gm)].map(([, name]) => name!)

it('bash offers every command of the help, and the commands of a group', async () => {
  const script = await scriptOf('bash')
  expect([...offered(script, '')].sort()).toEqual(
    namesIn(await helpOf())
      .filter((name) => name !== 'help')
      .sort(),
  )
  const group = (await helpOf('webhooks')).split('Commands:')[1]!
  for (const name of namesIn(group).filter((each) => each !== 'help'))
    expect(offered(script, 'webhooks', '')).toContain(name)
  expect(offered(script, 'web')).toEqual(['webhooks'])
})

it('bash offers every option of a command, and after one with values only those', async () => {
  const script = await scriptOf('bash')
  const words = [['backfill'], ['webhooks', 'create'], ['emulator'], ['config', 'show']]
  for (const path of words) {
    const options = [...(await helpOf(...path)).matchAll(/(?<=^ {2}(?:-\w, )?)--[\w-]+/gm)].map(
      ([flag]) => flag,
    )
    expect(options.length).toBeGreaterThan(1)
    expect(offered(script, ...path, '--').toSorted()).toEqual([...new Set(options)].sort())
  }
  const streams = ALL_STREAMS.map(({ name }) => name)
  expect(offered(script, 'verify', '--streams', '')).toEqual(streams)
  expect(offered(script, 'verify', '--deep', '--streams', 'packet_')).toEqual(['packet_responses'])
  expect(offered(script, 'dead-letters', 'list', '--stream', '')).toEqual(streams)
  expect(offered(script, 'explain', 'doc')).toEqual(['documents'])
  expect(offered(script, 'psql', '--as', '')).toEqual(['analyst', 'clinical', 'researcher'])
  expect(offered(script, 'backfill', '--since', '')).toEqual([])
  expect(offered(script, 'completion', '')).toEqual(expect.arrayContaining(['bash', 'zsh', 'fish']))
})

it.each(['zsh', 'fish'])('%s knows every command and option that bash knows', async (shell) => {
  const [script, own] = [await scriptOf('bash'), await scriptOf(shell)]
  for (const name of offered(script, '')) expect(own).toContain(name)
  for (const option of offered(script, 'backfill', '--')) {
    expect(own).toContain(
      shell === 'fish' ? `'__intake_sync_at backfill' -l ${option.slice(2)}` : `'${option}`,
    )
  }
  expect((own.match(/'/g) ?? []).length % 2).toBe(0)
})

it('zsh and fish offer the values of an option, files for one with any value, and what a place leads to', async () => {
  const streams = ALL_STREAMS.map(({ name }) => name).join(' ')
  const zsh = (await scriptOf('zsh')).split('\n').map((line) => line.trim())
  const files = `(( \${#found} )) || { _files; return } ;;`
  for (const line of [
    `'verify/--streams') found=(${streams}); ${files}`,
    `'backfill/--since') found=(); ${files}`,
    `'api/-q'|'api/--query') found=(); ${files}`,
  ])
    expect(zsh).toContain(line)
  expect(zsh.find((line) => line.startsWith("'patients')"))).toMatch(
    /^'patients'\) found=\('upload:upload a CSV file, [^']*' '--help:[^']*'\) ;;$/,
  )
  expect(zsh.find((line) => line.startsWith("'') found="))).toContain(" 'webhooks:webhook configurations ")
  const fish = (await scriptOf('fish')).split('\n')
  const at = (place: string, rest: string) => `complete -c intake-sync -n '__intake_sync_at ${place}' ${rest}`
  const starts = (start: string) => fish.filter((line) => line.startsWith(start)).length
  expect([
    starts(at('verify', `-l streams -x -a '${streams}' -d '`)),
    starts(at('backfill', `-l since -r -d '`)),
    starts(at('backfill', `-l full -d '`)),
    starts(at('', `-f -a webhooks -d '`)),
    starts(at('webhooks', `-f -a create -d '`)),
    starts(at('explain', '-f -a patients -d')),
  ]).toEqual([1, 1, 1, 1, 1, 1])
  const places = ["'/webhooks'", "'webhooks/create'", "'/explain'"]
  for (const script of [zsh.join('\n'), fish.join('\n')])
    for (const place of places) expect(script).toContain(place)
})

it('zsh offers for the word at the cursor what bash offers, by the words before it', async () => {
  const [bash, zsh] = [await scriptOf('bash'), await scriptOf('zsh')]
  // bash can run the script, with the functions of zsh that it calls.
  const inZsh = (...words: readonly string[]) => {
    const typed = ['', 'intake-sync', ...words].map((word) => `'${word}'`).join(' ')
    const input = `compdef() { :; }; _files() { echo files; }
_describe() { (( \${#found[@]} )) && printf '%s\\n' "\${found[@]%%:*}"; }
${zsh.replaceAll('return }', 'return; }')}
words=(${typed}); CURRENT=$((\${#words[@]} - 1)); _intake_sync`
    const { status, stdout, stderr } = spawnSync('bash', ['--norc'], { input, encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
    return stdout.split('\n').filter((line) => line !== '' && !/^-\w$/.test(line))
  }
  const lines = [[''], ['webhooks', ''], ['webhooks', 'create', ''], ['webhooks', '--json', 'list', '']]
  for (const words of [...lines, ['verify', '--streams', ''], ['verify', '--deep', '--streams', '']]) {
    const known = offered(bash, ...words)
    const more = words.includes('--streams') ? [] : offered(bash, ...words.slice(0, -1), '-')
    expect(new Set(inZsh(...words))).toEqual(
      new Set([...known, ...more].filter((word) => !/^-\w$/.test(word))),
    )
  }
  expect(inZsh('backfill', '--since', '')).toEqual(['files'])
  // A word that is still being typed is no place yet.
  expect(inZsh('webhooks')).toEqual(inZsh(''))
  expect(inZsh('webhooks', 'create')).toEqual(inZsh('webhooks', ''))
})

for (const shell of ['zsh', 'fish']) {
  it(`${shell} can read its script`, async ({ skip }) => {
    const script = await scriptOf(shell)
    const { error, status, stderr } = spawnSync(shell, ['-n'], { input: script, encoding: 'utf8' })
    if (error !== undefined) skip(`${shell} is not installed here`)
    expect([status, stderr]).toEqual([0, ''])
  })
}

it('another shell is wrong usage', async () => {
  expect((await runCommand(['completion', 'tcsh'], {})).code).toBe(2)
})
