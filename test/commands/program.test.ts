/** The command line as a whole: what an option is without being given, and what is said of an error. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { expect, it } from 'vitest'
import { everyCommand, runProgram } from '../../src/commands/program.ts'

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
