/** Plays README.md as a reader types it: in a pipe or on a terminal of 80 columns, as this user or another. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { expect } from 'vitest'
import { freePort } from '../../support/free-port.ts'

export interface Reader {
  /** Where the commands are typed. */
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
  /** In place of `npx intake-sync`; null to type that. */
  readonly command: string | null
  /** Null for a pipe. */
  readonly columns: number | null
  /** Another user than this one. */
  readonly uid?: number
}

const readme = readFileSync(join(import.meta.dirname, '../../../README.md'), 'utf8')

/** The blocks of a section. */
export function blocksOf(heading: string): readonly string[] {
  const section = readme.split(`## ${heading}\n`)[1]!.split('\n## ')[0]!
  return [...section.matchAll(/^```(?:sh|sql)\n([\s\S]*?)^```$/gm)].map(([, text]) => text!)
}

/** The text of a section, in one line unless `asOne` is false. */
export function textOf(heading: string, asOne = true): string {
  const section = readme.split(`## ${heading}\n`)[1]!.split('\n## ')[0]!
  return asOne ? section.replace(/\s+/g, ' ') : section
}

let scripts = 0

/** Starts a script of `sh`, whose standard input is the file `input`. */
export function start({ folder, env, columns, uid }: Reader, script: string, input = '/dev/null') {
  const file = join(folder, `.typed-${++scripts}.sh`)
  writeFileSync(file, `set -e\n${script}`, { mode: 0o644 })
  const onTerminal = `stty cols ${columns} rows 24; exec sh '${file}' <'${input}'`
  const [program, ...words] = columns === null ? ['sh', file] : ['script', '-qec', onTerminal, '/dev/null']
  const child = spawn(program!, words, {
    ...{ cwd: folder, env, detached: true, stdio: 'pipe' },
    ...(uid === undefined ? {} : { uid, gid: uid }),
  })
  let output = ''
  child.stdout.on('data', (data) => (output += String(data)))
  child.stderr.on('data', (data) => (output += String(data)))
  child.stdin.on('error', () => {})
  if (columns === null) child.stdin.end(input === '/dev/null' ? '' : readFileSync(input))
  const shown = () => stripVTControlCharacters(output.replaceAll('\r\n', '\n'))
  /** Progress bars move the cursor to another line instead of ending one. */
  const lines = () => stripVTControlCharacters(output.replace(/\x1b\[[\d;]*[A-HJK]/g, '\n')).split(/[\n\r]/)
  const ended = once(child, 'close').then(([code]) => ({ code: code as number, output: shown() }))
  return {
    ended,
    output: shown,
    lines,
    /** Ctrl-C. */
    stop: () => (columns === null ? process.kill(-child.pid!, 'SIGINT') : child.stdin.write('\x03')),
    isRunning: () => child.exitCode === null && child.signalCode === null,
    kill: () => process.kill(-child.pid!, 'SIGKILL'),
  }
}

/** A path or an address is longer than a line can be, and is not broken. */
const wrappable = (line: string) =>
  line
    .split(' ')
    .filter((word) => !word.includes('/'))
    .join(' ')

/** Runs a script that succeeds, and whose lines fit the terminal; returns what it showed. */
export async function done(reader: Reader, script: string, input?: string): Promise<string> {
  const running = start(reader, script, input)
  const { code, output } = await running.ended
  expect({ code, output: code === 0 ? '' : output }).toEqual({ code: 0, output: '' })
  if (reader.columns !== null)
    for (const line of running.lines()) {
      // The body of an answer is printed as received.
      if (line.startsWith('{')) continue
      const fitting = wrappable(line.replaceAll(reader.folder, ''))
      expect(fitting.length, line).toBeLessThanOrEqual(reader.columns)
    }
  return output
}

/** "The first ten minutes": each command works, and says what README.md says. */
export async function playTenMinutes(given: Reader): Promise<void> {
  const blocks = blocksOf('The first ten minutes')
  expect(blocks).toHaveLength(5)
  const [emulator, setUp, queries, serve, live] = blocks as [string, string, string, string, string]
  const [service, webhooks, admin] = [await freePort(), await freePort(), await freePort()]
  const env = { ...given.env, INTAKE_WEBHOOK_PORT: String(webhooks), INTAKE_ADMIN_PORT: String(admin) }
  const reader = { ...given, env }
  /** A block with the ports of this test. */
  const adapted = (text: string) =>
    text
      .replaceAll('npx intake-sync emulator', `npx intake-sync emulator --port ${service}`)
      .replaceAll(':4010', `:${service}`)
      .replaceAll(':8080', `:${webhooks}`)
      .replaceAll('npx intake-sync', reader.command ?? 'npx intake-sync')
  const running = [start(reader, `exec ${adapted(emulator)}`)]
  try {
    await expect.poll(running[0]!.output).toContain('intake-sync init')
    const said = await done(reader, adapted(setUp.replace(/\n[^\n]*psql --as analyst\n/, '\n')))
    expect(said).toContain('a first backfill makes about')
    expect(said).toMatch(/ \d+ ok, |\n\d+ ok, \d+ warnings?, 0 failed/)
    expect(said).toContain('next: intake-sync psql --as analyst')
    expect(statSync(join(reader.folder, 'intake-sync.env')).mode & 0o777).toBe(0o600)

    writeFileSync(join(reader.folder, '.queries.sql'), queries)
    const psql = adapted(setUp.split('\n').find((line) => line.includes('psql'))!)
    const answers = await done(reader, psql, join(reader.folder, '.queries.sql'))
    for (const word of ['age_band', 'share_submitted', 'choice']) expect(answers).toContain(word)
    expect(answers.match(/\(\d+ rows?\)/g)).toHaveLength(3)
    expect(answers).not.toContain('(0 rows)')

    running.push(start(reader, `exec ${adapted(serve)}`))
    await expect.poll(running[1]!.output).toMatch(/webhooks/)
    const changed = await done(reader, adapted(live))
    expect(changed).toMatch(/next: intake-sync webhooks test \S+/)
    expect(changed).toMatch(/as of \S+,\s+by a\s+record/)
    expect(changed).toMatch(/event:/)
    expect(changed).toMatch(/webhook_configs .*repaired/)
    for (const each of running.toReversed()) {
      each.stop()
      const { code } = await each.ended
      // npx ends by the signal, whatever its command does.
      if (reader.command !== null) expect(code).toBe(0)
    }
  } finally {
    for (const each of running) if (each.isRunning()) each.kill()
  }
}
