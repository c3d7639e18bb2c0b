/** The command line as a whole: what an option is without being given, and what is said of an error. */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { expect, it } from 'vitest'
import { everyCommand, runProgram } from '../../src/commands/program.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const output = { write: () => true }
const surroundings = { env: {}, stdout: output, stderr: output, signal: new AbortController().signal }

async function run(...words: string[]) {
  const said = { stdout: '', stderr: '' }
  const code = await runProgram(words, {
    ...{ ...surroundings, version: '1.2.3' },
    stdout: { write: (text) => (said.stdout += String(text)) },
    stderr: { write: (text) => (said.stderr += String(text)) },
  })
  return { code, ...said }
}

const withNested = (command: Command, above = ''): readonly (readonly [string, Command])[] => {
  const path = `${above} ${command.name()}`.trim()
  return [[path, command], ...command.commands.flatMap((each) => withNested(each, path))]
}

it('an option that is not given has this value', async () => {
  const commands = (await everyCommand({ ...surroundings, version: '' })).flatMap((each) => withNested(each))
  const values = commands.flatMap(([path, { options }]) =>
    options.flatMap(({ long, defaultValue, negate }) =>
      defaultValue === undefined || negate ? [] : [[`${path} ${long}`, defaultValue]],
    ),
  )
  expect(Object.fromEntries(values)).toEqual({
    'wait --timeout': 30,
    'patients upload --timeout': 1_800,
    'runs --limit': 20,
    'webhooks events --limit': 20,
    'dead-letters list --limit': 50,
    'dead-letters list --status': 'waiting',
    'export --format': 'csv',
    'export --as': 'analyst',
    'work --concurrency': 8,
    'emulator --port': '4010',
    'emulator --seed': '1',
  })
})

it('--version is that of the program', async () => {
  expect(await run('--version')).toEqual({ code: 0, stdout: '1.2.3\n', stderr: '' })
})

it('without a command its document names each of them, once', async () => {
  const { code, stdout } = await run('--json')
  const names = (await everyCommand({ ...surroundings, version: '' })).map((each) => each.name())
  expect([code, JSON.parse(stdout).error]).toEqual([
    2,
    expect.objectContaining({ message: `intake-sync needs a command: ${names.join(', ')}` }),
  ])
  expect(names).not.toContain('help')
})

it.each(['constructor', 'toString', '__proto__', ''])('%j is no command', async (word) => {
  const { code, stdout } = await run(word, '--json')
  expect([code, JSON.parse(stdout).error.message]).toEqual([2, `unknown command '${word}'`])
})

it('a command that a group does not have is named, and not taken for a missing one', async () => {
  const { code, stdout } = await run('webhooks', 'nothing', '--json')
  expect([code, JSON.parse(stdout).error.message]).toEqual([2, `unknown command 'nothing'`])
  const missing = await run('webhooks', '--json')
  expect(JSON.parse(missing.stdout).error.message).toMatch(/^webhooks needs a command: create, /)
})

it('help fits the terminal that it is written to: of an error that of stderr, else that of stdout', async () => {
  const widths = async (words: readonly string[], stdout: object, stderr: object) => {
    let text = ''
    const write = (more: string | Uint8Array) => (text += String(more))
    await runProgram(words, {
      ...{ ...surroundings, version: '1.2.3', stdout: { write, ...stdout }, stderr: { write, ...stderr } },
    })
    const lines = text.split('\n').filter((line) => / {4,}\S/.test(line))
    expect(lines.length).toBeGreaterThan(5)
    return Math.max(...lines.map((line) => line.length))
  }
  const [narrow, wide] = [60, 160].map((columns) => ({ isTTY: true, columns }))
  for (const [words, isError] of [
    [['webhooks'], true],
    [['webhooks', '--help'], false],
  ] as const) {
    const [fits, exceeds] = [await widths(words, wide!, narrow!), await widths(words, narrow!, wide!)]
    expect(isError ? fits : exceeds).toBeLessThanOrEqual(60)
    expect(isError ? exceeds : fits).toBeGreaterThan(70)
  }
})

it('an error of usage is wrapped to the terminal that it is written to, and to no other', async () => {
  const written = async (stdout: object, stderr: object) => {
    let text = ''
    const code = await runProgram(['patients', 'upload', 'a.csv', '--timeout', 'soon'], {
      ...{ ...surroundings, version: '1.2.3', stdout: { ...output, ...stdout } },
      stderr: { write: (more) => (text += String(more)), ...stderr },
    })
    expect(code).toBe(2)
    return text.split('\n')
  }
  const narrow = { isTTY: true, columns: 50 }
  const [first] = await written(narrow, {})
  expect(first).toMatch(/^error: option '--timeout <duration>' .* or a number of seconds\.$/)
  const lines = (await written({}, narrow)).slice(0, 4)
  expect(lines[0]).toMatch(/^error: option '--timeout <duration>'/)
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(50)
})

it('an error is a JSON document wherever --json is in the command line, and text without it', async () => {
  for (const words of [
    ['--json', 'nothing'],
    ['nothing', '--json'],
    ['webhooks', '--json', 'nothing'],
  ]) {
    const { code, stdout } = await run(...words)
    expect([code, JSON.parse(stdout).error]).toEqual([
      ...[2, expect.objectContaining({ code: 'usage', hint: 'add --help for usage' })],
    ])
  }
  for (const words of [['nothing'], ['webhooks'], ['wait', 'patient']])
    expect(await run(...words)).toMatchObject({ code: 2, stdout: '' })
  const known = await run('wait', '--json', 'patient')
  expect([known.code, JSON.parse(known.stdout).error.code]).toEqual([2, 'unknown_stream'])
})

it('the document of an error has its hint under both names, and where it is explained', async () => {
  const { code, stdout } = await run('wait', 'patient', '--json')
  const { error } = JSON.parse(stdout)
  const { hint, docs, message, code: name, ...former } = error
  expect([code, name, message]).toEqual([2, 'unknown_stream', 'unknown stream "patient"'])
  expect(hint).toMatch(/^did you mean patients\?/)
  expect(Object.values(former)).toEqual([hint])
  const address = new URL(docs)
  expect([existsSync(fileURLToPath(address)), address.hash]).toEqual([true, '#unknown_stream'])
})

it('a settings file that cannot be used ends any command, with the document of --json', async () => {
  const folder = makeFolder('program-')
  const named = async (env: object, ...words: string[]) => {
    const said = { stdout: '', stderr: '' }
    const code = await runProgram(
      words,
      {
        ...{ ...surroundings, version: '1.2.3', env: env as NodeJS.ProcessEnv },
        stdout: { write: (text) => (said.stdout += String(text)) },
        stderr: { write: (text) => (said.stderr += String(text)) },
      },
      folder,
    )
    return { code, ...said }
  }
  const message = 'INTAKE_ENV_FILE names a file that cannot be read (ENOENT)'
  const stderr = `error: ${message}\n  hint: check the path and its permissions\ncode: file_unreadable, see docs/errors.md#file_unreadable\n`
  const env = { INTAKE_ENV_FILE: 'nothing' }
  expect(await named(env, 'runs')).toEqual({ code: 2, stdout: '', stderr })
  const json = await named(env, 'runs', '--json')
  expect([json.code, json.stderr, JSON.parse(json.stdout).error]).toMatchObject([
    ...[2, stderr, { code: 'file_unreadable', message }],
  ])
  // Its settings are those of the command.
  writeFileSync(join(folder, 'intake-sync.env'), 'INTAKE_CRON=never\n', { mode: 0o600 })
  expect((await named({}, 'config', 'show')).stderr).toContain('INTAKE_CRON is not')
  removeFolder(folder)
})
