/**
 * What `erase` and `teams remove` ask at a terminal, without a warehouse: each question, what each answer does, and what
 * nothing may be done before.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { eraseCommand } from '../../../src/commands/manage/erase.ts'
import { teamsCommand } from '../../../src/commands/manage/teams.ts'
import { erase, previewErasure } from '../../../src/operate/erase/erase.ts'
import { signReceipt } from '../../../src/operate/receipts.ts'
import { removeTeam } from '../../../src/operate/remove-team.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({ db: 'db', [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../../src/warehouse/teams.ts', async (original) => ({
  ...(await original()),
  warehouseTeam: async () => ({ teamId: 7, name: 'north', isRemoved: false }),
}))
vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: async () => {},
}))
vi.mock('../../../src/operate/erase/erase.ts', () => ({ erase: vi.fn(), previewErasure: vi.fn() }))
vi.mock('../../../src/operate/receipts.ts', () => ({ signReceipt: vi.fn() }))
vi.mock('../../../src/operate/remove-team.ts', () => ({ removeTeam: vi.fn() }))

const folder = makeFolder('answers-')
const file = join(folder, 'receipt')
afterAll(() => removeFolder(folder))

const url = 'postgres://u@127.0.0.1:1/d'
const ERASED = {
  ...{ records: 1, history: 2, events: 3, deadLetters: 4, exportRows: 5, statisticsRefreshed: true },
  ...{ unnamedLeft: 0, rewritten: null, patientHash: 'a hash', login: 'ada' },
  searched: { identifiers: 6, leftOut: 0, columns: 7, unreadable: [], left: [] },
}
const REMOVED = { teamId: 9, events: 1, rows: 2, tables: ['a', 'b'], notes: ['a note'] }

beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(previewErasure).mockResolvedValue({
    ...{ found: new Map([['patients', ['p']]]), erasedBefore: false, unnamedRows: 0 },
  } as never)
  vi.mocked(erase).mockResolvedValue(ERASED)
  vi.mocked(removeTeam).mockResolvedValue(REMOVED)
  vi.mocked(signReceipt).mockImplementation(async (_, version, { kind, facts }) =>
    JSON.stringify({ version, kind, facts }),
  )
})

/** Types the next of `answers` at each question; null ends the input. */
async function typed(
  command: typeof eraseCommand | typeof teamsCommand,
  words: readonly string[],
  answers: readonly (string | null)[],
  isTTY = true,
) {
  const said = { stdout: '', questions: [] as string[], rest: '' }
  let left = [...answers]
  const keyboards: PassThrough[] = []
  const keyboard = () => {
    const input = Object.assign(new PassThrough(), { isTTY })
    keyboards.push(input)
    return input
  }
  const context = {
    env: { DATABASE_URL: url, INTAKE_TEAM: 'configured' },
    stdout: { write: (text: string | Uint8Array) => (said.stdout += String(text)) },
    stderr: {
      write: (text: string | Uint8Array) => {
        if (!String(text).endsWith('] ')) {
          said.rest += String(text)
          return true
        }
        said.questions.push(String(text))
        const [answer = null, ...more] = left
        left = more
        const input = keyboards.at(-1)!
        setImmediate(() => (answer === null ? input.end() : input.write(`${answer}\n`)))
        return true
      },
    },
    ...{ signal: new AbortController().signal, version: '1.2.3' },
  }
  const ended: unknown = await command(context, keyboard)
    .parseAsync(words, { from: 'user' })
    .then(
      () => 0,
      (error: { exitCode?: number; code?: string }) => error.exitCode ?? error.code,
    )
  return { ended, ...said }
}

const QUESTION =
  'Erase patient p of team north: 1 of patients, their history, events and rows of exports? [y/N] '
const UNNAMED =
  '3 row(s) of exports without a Client ID have the patient’s name and e-mail address. Erase them too? [y/N] '

it.each([
  [0, ['y'], [QUESTION], false],
  [0, ['Yes'], [QUESTION], false],
  [3, ['y', 'y'], [QUESTION, UNNAMED], true],
  [3, ['y', 'no'], [QUESTION, UNNAMED], false],
  [3, ['y', null], [QUESTION, UNNAMED], false],
] as const)(
  'with %i rows that may be the patient’s, the answers %j erase, and what was asked about',
  async (count, answers, questions, unnamedRows) => {
    vi.mocked(previewErasure).mockResolvedValue({
      ...{ found: new Map([['patients', ['p']]]), erasedBefore: false, unnamedRows: count },
    } as never)
    const ended = await typed(eraseCommand, ['patient', 'p'], answers)
    expect(ended).toMatchObject({ ended: 0, questions, rest: '' })
    expect(vi.mocked(erase).mock.calls.map(([options]) => options)).toEqual([
      expect.objectContaining({ url, patient: { teamId: 7, id: 'p' }, unnamedRows, forget: false }),
    ])
    expect(ended.stdout).toMatch(/^erased: 1 records, 2 earlier states, 3 events, 4 dead letters, 5 rows of/)
  },
)

it.each(['n', '', 'yes please', 'j', null])(
  'the answer %j erases nothing, and makes no receipt',
  async (answer) => {
    expect(await typed(eraseCommand, ['patient', 'p', '--receipt', file], [answer])).toEqual({
      ...{ ended: 1, stdout: '', questions: [QUESTION], rest: 'nothing was erased\n' },
    })
    expect(erase).not.toHaveBeenCalled()
    expect(existsSync(file)).toBe(false)
  },
)

it.each([
  ['--yes', [], true],
  ['--yes --unnamed-rows', [], true],
  ['--unnamed-rows', ['y'], true],
  ['', [], false],
])('with "%s" nothing more is asked', async (options, answers, isDone) => {
  vi.mocked(previewErasure).mockResolvedValue({
    ...{ found: new Map([['patients', ['p']]]), erasedBefore: false, unnamedRows: 3 },
  } as never)
  const words = ['patient', 'p', ...options.split(' ').filter((word) => word !== '')]
  const { ended, questions } = await typed(eraseCommand, words, answers, answers.length > 0)
  expect([ended, questions]).toEqual([
    isDone ? 0 : 'confirmation_missing',
    answers.length > 0 ? [QUESTION] : [],
  ])
  expect(vi.mocked(erase).mock.calls.map(([{ unnamedRows }]) => unnamedRows)).toEqual(
    isDone ? [options.includes('unnamed')] : [],
  )
})

it.each([
  [[], 'a hash', true],
  [['--forget'], null, false],
])(
  'the receipt of an erasure with %j has all of its facts, and of whom the hash %j',
  async (more, hash, kept) => {
    const words = ['patient', 'p', '--yes', '--json', '--receipt', file, ...more]
    const { ended, stdout } = await typed(eraseCommand, words, [])
    expect(ended).toBe(0)
    const document = JSON.parse(stdout)
    expect(document.hash_kept).toBe(kept)
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
      ...{ version: '1.2.3', kind: 'erasure', facts: { ...document, login: 'ada', patient_hash: hash } },
    })
    rmSync(file)
  },
)

it('an erasure whose receipt cannot be signed fails, and leaves no file', async () => {
  vi.mocked(signReceipt).mockRejectedValue(Object.assign(new Error('no key'), { code: 'no_key' }))
  expect(await typed(eraseCommand, ['patient', 'p', '--yes', '--receipt', file], [])).toMatchObject({
    ...{ ended: 'no_key', stdout: '' },
  })
  expect(existsSync(file)).toBe(false)
})

const REMOVE = (name: string) => `Keep the data of team ${name}, or delete every row? [keep/delete/N] `

it.each([
  ['keep', 'kept'],
  [' KEEP ', 'kept'],
  ['delete', 'deleted'],
  ['Delete', 'deleted'],
  ['y', null],
  ['k', null],
  ['kept', null],
  ['', null],
  [null, null],
] as const)('teams remove, answered %j, leaves the data %s', async (answer, data) => {
  const { ended, questions, rest, stdout } = await typed(
    teamsCommand,
    ['remove', 'a\u001b', '--json'],
    [answer],
  )
  expect([ended, questions, rest]).toEqual([
    ...[data === null ? 1 : 0, [REMOVE('a\\x1b')], data === null ? 'nothing was removed\n' : ''],
  ])
  expect(vi.mocked(removeTeam).mock.calls.map(([options]) => [options.name, options.data])).toEqual(
    data === null ? [] : [['a\u001b', data]],
  )
  if (data === null) return
  expect(JSON.parse(stdout)).toEqual({
    ...{ team: 'a\u001b', team_id: 9, data, pending_events: 1, deleted: { rows: 2, tables: ['a', 'b'] } },
    notes: ['a note'],
  })
})

it('teams remove asks nothing about a team of the configuration, or where the choice was given, or nobody can answer', async () => {
  expect(await typed(teamsCommand, ['remove', 'configured'], [])).toMatchObject({
    ended: 'usage',
    questions: [],
  })
  expect(await typed(teamsCommand, ['remove', 'a'], [], false)).toMatchObject({
    ...{ ended: 'confirmation_missing', questions: [] },
  })
  expect(removeTeam).not.toHaveBeenCalled()
  for (const option of ['--keep-data', '--delete-data'])
    expect(await typed(teamsCommand, ['remove', 'a', option], [])).toMatchObject({ ended: 0, questions: [] })
})
