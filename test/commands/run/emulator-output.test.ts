/** The emulator as a command: each line that it prints, what it does with an option, and that it is closed however it ends. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { EmulatorOptionError, startEmulator } from '../../../src/emulator/server.ts'
import { runCommand } from '../../support/run-command.ts'

vi.mock('../../../src/emulator/server.ts', async (original) => ({
  ...(await original()),
  startEmulator: vi.fn(),
}))

const team = (name: string) => ({ name, api_key: `key of ${name}`, api_secret: `secret of ${name}` })
const environments = [
  { name: 'production', base_url: 'http://h:1', teams: [team('north'), team('south')] },
  { name: 'sandbox', base_url: 'http://h:2', teams: [team('trial')] },
]
const NOTHING = { patients: 0, forms: 0, questions: 0, responses: 0, skipped: [], failed: [] }

/** Steps, in their order. */
let done: string[]
let close: () => Promise<void>
const listeners = () => (['SIGINT', 'SIGTERM'] as const).map((name) => process.listeners(name))
let before: ReturnType<typeof listeners>

beforeEach(() => {
  done = []
  before = listeners()
  close = async () => {
    await new Promise(setImmediate)
    done.push('closed')
  }
  starts(NOTHING)
})
afterEach(() => expect(listeners()).toEqual(before))

const starts = (imported: object) =>
  vi
    .mocked(startEmulator)
    .mockReset()
    .mockImplementation(async () => ({ environments, imported, close: () => close() }) as never)

/** The listener that the command has added for the signal. */
const send = (name: 'SIGINT' | 'SIGTERM') => {
  const own = process.listeners(name).filter((each) => !before.flat().includes(each))
  expect(own).toHaveLength(1)
  ;(own[0] as () => void)()
}

async function emulator(line: string, { signal = 'SIGTERM', write = () => {} } = {}) {
  const onOutput = (text: string) => {
    write()
    if (vi.mocked(startEmulator).mock.calls.length > 0 && !text.includes('"error"')) send(signal as 'SIGINT')
  }
  const words = ['emulator', ...line.split(' ').filter((word) => word !== '')]
  const { code, stdout, stderr } = await runCommand(words, {}, { onOutput })
  done.push('ended')
  return { code, stdout, stderr }
}

it.each(['SIGINT', 'SIGTERM'])(
  'it prints every team of both environments, and how to use the first; %s closes it, and it ends with 0',
  async (signal) => {
    const stdout = [
      'production  http://h:1',
      '  north  key key of north  secret secret of north',
      '  south  key key of south  secret secret of south',
      'sandbox  http://h:2',
      '  trial  key key of trial  secret secret of trial',
      '\nTo use the first team, in another terminal:\n',
      'export INTAKE_BASE_URL=http://h:1 INTAKE_API_KEY=key of north INTAKE_API_SECRET=secret of north',
      'intake-sync init\n\nCtrl-C ends it.\n',
    ].join('\n')
    expect(await emulator('', { signal })).toEqual({ code: 0, stdout, stderr: '' })
    expect(done).toEqual(['closed', 'ended'])
    const json = await emulator('--json', { signal })
    expect([json.code, json.stdout]).toEqual([0, `${JSON.stringify({ environments })}\n`])
  },
)

it.each([
  ['--import-patients p.csv', { importPatients: 'p.csv' }],
  ['--import-questionnaires d', { importQuestionnaires: 'd' }],
  ['--import-survey a.csv --import-survey b.csv', { importSurvey: ['a.csv', 'b.csv'] }],
])('with %s it says what was imported, and what was not', async (line, options) => {
  starts({
    ...{ patients: 1, forms: 2, questions: 3, responses: 4, skipped: ['a', 'b'] },
    failed: ['x', 'y'].map((name) => ({ file: `${name}.json`, reason: `${name} is not JSON` })),
  })
  const { code, stderr } = await emulator(`${line} --json`)
  expect([code, stderr]).toEqual([
    0,
    [
      'not imported: x.json: x is not JSON\nnot imported: y.json: y is not JSON',
      'imported 1 patients, 2 forms with 3 questions, 4 responses; 2 files are not questionnaires\n',
    ].join('\n'),
  ])
  expect(startEmulator).toHaveBeenCalledWith({ port: 4010, seed: '1', ...options })
})

/** A failure that is no fault of intake-sync. */
const NO = new IntakeError('no', { code: 'disk_full', verdict: 'stop' })

it('an option that the emulator refuses is wrong usage with a hint, and any other failure is not', async () => {
  vi.mocked(startEmulator).mockRejectedValueOnce(new EmulatorOptionError('seed', 'too long'))
  const refused = await emulator('--json')
  expect([refused.code, JSON.parse(refused.stdout).error]).toMatchObject([
    ...[2, { code: 'usage', message: '--seed: too long', hint: 'see intake-sync emulator --help' }],
  ])
  vi.mocked(startEmulator).mockRejectedValueOnce(NO)
  expect((await emulator('--json')).code).toBe(1)
})

it('it is closed too where its addresses cannot be printed', async () => {
  const write = () => {
    if (vi.mocked(startEmulator).mock.calls.length > 0 && !done.includes('closed')) throw NO
  }
  expect((await emulator('', { write })).code).toBe(1)
  expect(done).toEqual(['closed', 'ended'])
})

it('lists of shapes and faults are in words or one document, and start nothing', async () => {
  const lists = { '--shape list': 'bare-array', '--faults list': 'reset' }
  for (const [line, name] of Object.entries(lists)) {
    const text = await emulator(line)
    const json = await emulator(`${line} --json`)
    const entries = Object.entries(JSON.parse(json.stdout) as Record<string, string>)
    expect(entries.map(([each]) => each)).toContain(name)
    expect(text).toEqual({
      ...{ code: 0, stderr: '' },
      stdout: entries.map(([each, does]) => `${each.padEnd(28)}${does}\n`).join(''),
    })
    expect(json.stdout.split('\n').slice(0, 2)).toEqual(['{', expect.stringMatching(/^ {2}"/)])
  }
  expect((await emulator('--shape list')).stdout).toMatch(/^default {21}\S.*\nrandom {22}\S/)
  expect(startEmulator).not.toHaveBeenCalled()
})
