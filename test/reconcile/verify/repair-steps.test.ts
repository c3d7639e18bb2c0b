/** What a repair asks the service for, loads and derives again for each of many differences, without a warehouse. */
import { beforeEach, expect, test, vi } from 'vitest'
import { fetchForRun } from '../../../src/extract/conflicts/fetch-by-id.ts'
import { readFile } from '../../../src/extract/reading/read-export-file.ts'
import { missedBefore, relist } from '../../../src/extract/reading/read-exports.ts'
import { countLive } from '../../../src/extract/scan/seen-ids.ts'
import { storedExports } from '../../../src/load/exports/export-file.ts'
import { storedVersions } from '../../../src/load/merge/skip-unchanged.ts'
import { recordsOf } from '../../../src/reconcile/expected-from-raw.ts'
import { rewritePart } from '../../../src/reconcile/rewrite.ts'
import { compareIds, expectEnvelopes, type StreamComparison } from '../../../src/reconcile/verify/confirm.ts'
import { expectForgotten } from '../../../src/reconcile/verify/expect-raw.ts'
import type { Difference } from '../../../src/reconcile/verify/find.ts'
import { repair } from '../../../src/reconcile/verify/repair.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { at, recordEnvelope } from '../../support/envelopes.ts'
import { scripted } from '../../support/scripted.ts'

vi.mock('../../../src/extract/conflicts/fetch-by-id.ts', () => ({ fetchForRun: vi.fn() }))
vi.mock('../../../src/extract/reading/read-export-file.ts', () => ({ readFile: vi.fn() }))
vi.mock('../../../src/extract/reading/read-exports.ts', () => ({ missedBefore: vi.fn(), relist: vi.fn() }))
vi.mock('../../../src/extract/scan/seen-ids.ts', () => ({ countLive: vi.fn() }))
vi.mock('../../../src/load/exports/export-file.ts', () => ({ storedExports: vi.fn() }))
vi.mock('../../../src/load/exports/file-problems.ts', () => ({
  joinProblems: vi.fn(),
  matchQuestions: vi.fn(),
}))
vi.mock('../../../src/load/merge/skip-unchanged.ts', () => ({ storedVersions: vi.fn() }))
vi.mock('../../../src/load/slice.ts', () => ({ assertOwned: async () => {} }))
vi.mock('../../../src/reconcile/expected-from-raw.ts', () => ({ recordsOf: vi.fn() }))
vi.mock('../../../src/reconcile/rewrite.ts', () => ({ rewritePart: vi.fn() }))
vi.mock('../../../src/reconcile/verify/confirm.ts', () => ({
  ...{ compareIds: vi.fn(), expectEnvelopes: vi.fn(), presentOf: async () => 'then' },
}))
vi.mock('../../../src/reconcile/verify/expect-raw.ts', () => ({ expectForgotten: vi.fn() }))

const NOW = '2026-01-05T10:00:00.000000Z'
const difference = (id: string, more: Partial<Difference> = {}): Difference => ({
  ...{ id, kind: 'different', fields: [], certain: false, newer: false, payloadOnly: false, isOrphan: false },
  ...more,
})

let steps: unknown[]
/** Ids that differ all the same after the repair. */
let left: readonly string[]
/** Statements of the repair itself. */
let statements: string[]
const ids = (envelopes: readonly { readonly id: string }[]) => envelopes.map(({ id }) => id).join()

beforeEach(() => {
  vi.resetAllMocks()
  steps = []
  left = []
  statements = []
  vi.mocked(countLive).mockResolvedValue(1_000)
  vi.mocked(storedVersions).mockResolvedValue(new Map())
  vi.mocked(compareIds).mockImplementation(async (_comparing, asked) => {
    steps.push(['compare', asked.join()])
    return left.map((id) => difference(id))
  })
  vi.mocked(recordsOf).mockImplementation(
    async (_session, _place, asked) => asked.map((id) => ({ id })) as never,
  )
  vi.mocked(rewritePart).mockImplementation(async (_loader, { envelopes, scope }) => {
    steps.push(['derive', ids(envelopes), scope.kind === 'ids' ? scope.ids.join() : scope.kind])
    return {} as never
  })
  vi.mocked(expectEnvelopes).mockImplementation(async (_session, _tables, known, envelopes) => {
    steps.push(['expect', known.join(), ids(envelopes)])
  })
  vi.mocked(expectForgotten).mockImplementation(async (_session, _tables, teamId, among) => {
    steps.push(['forgotten', teamId, among?.join()])
    return 0
  })
})

type Name = 'patients' | 'exports' | 'webhook_deliveries' | 'packet_responses'

async function repaired(name: Name, found: readonly Difference[], stable = true, allowMassDelete = false) {
  const stream = streamNamed(name)!
  const db = scripted((text, values) => {
    if (/^(begin|commit)$/.test(text)) return []
    statements.push(`${/from (\S+)/.exec(text)?.[1]} ${JSON.stringify(values)}`)
    return []
  })
  const source = {
    ...{ stream, clock: { now: () => 0 }, serviceClock: { observedAt: () => NOW } },
    taken: { teamId: 3, stream: name, runId: '8' },
    signal: new AbortController().signal,
    loaders: { run: async (work: (loader: unknown) => unknown) => await work('loader') },
    load: async (
      _loader: unknown,
      { lines, deadLetters }: { lines: { records: Buffer }; deadLetters: object[] },
    ) => {
      const records = lines.records
        .toString()
        .trimEnd()
        .split('\n')
        .map((line) => line.split('\t'))
      steps.push(['load', records.map(([, , id]) => id).join(), deadLetters])
    },
  }
  const files = name === 'exports' ? [{ name: 'intake.export_rows' }, { name: 'intake.export_cells' }] : []
  const comparing = { source, session: { db }, tables: { stream, files } } as unknown as StreamComparison
  return await repair(comparing, found, { allowMassDelete, stable })
}
const record = (id: string) => ({
  kind: 'record',
  envelope: recordEnvelope({ id, first_name: id }, { teamId: 3, stream: 'patients', observedAt: at(0) }),
})

test('each of many records is fetched: found ones are loaded, gone ones deleted, unreadable ones kept as dead letters', async () => {
  const answers: Record<string, object> = {
    ...{ a: record('a'), b: record('b'), late1: { kind: 'later' }, late2: { kind: 'later' } },
    ...{ gone1: { kind: 'gone', observedAt: NOW }, gone2: { kind: 'gone', observedAt: NOW } },
    ...{ dead1: { kind: 'dead', deadLetter: { recordId: 'dead1', origin: 'x', reason: 'r' } } },
    ...{ dead2: { kind: 'dead', deadLetter: { recordId: 'dead2', origin: 'x', reason: 'r' } } },
    ...{ met1: { kind: 'gone', observedAt: NOW } },
  }
  vi.mocked(fetchForRun).mockImplementation(async (_source, asked, reason) => {
    steps.push(['fetch', reason, asked.join()])
    return asked.map((id) => answers[id]) as never
  })
  const found = Object.keys(answers).map((id) =>
    difference(id, id.startsWith('gone') ? { kind: 'extra' } : {}),
  )
  left = ['late1', 'dead1', 'dead2']
  const all = Object.keys(answers).join()
  expect(await repaired('patients', found)).toEqual({ repaired: 6, note: null })
  expect(steps).toEqual([
    ['fetch', 'refetch', all],
    [
      ...['load', 'a,b,gone1,gone2'],
      ['dead1', 'dead2'].map((recordId) => ({ recordId, origin: 'run:8 repair', reason: 'r' })),
    ],
    ['expect', 'a,b,gone1,gone2,met1', 'a,b'],
    ['compare', all],
  ])
  expect(vi.mocked(storedVersions).mock.calls[0]!.slice(1)).toEqual([
    { teamId: 3, stream: 'patients' },
    Object.keys(answers),
  ])
})

test.each([
  [10, 1_000, true, false, null],
  [51, 1_000, true, false, /51/],
  [51, 1_000, true, true, null],
  [2, 1_000, false, false, /kept changing/],
])(
  '%i extra records of %i, where the list is stable: %j, and any number may be deleted: %j',
  async (count, live, stable, any, note) => {
    vi.mocked(countLive).mockResolvedValue(live)
    vi.mocked(fetchForRun).mockImplementation(
      async (_source, asked) => asked.map(() => ({ kind: 'gone', observedAt: NOW })) as never,
    )
    const extra = Array.from({ length: count }, (_, place) => difference(`x${place}`, { kind: 'extra' }))
    const result = await repaired('patients', extra, stable, any)
    const asked = vi.mocked(fetchForRun).mock.calls.flatMap(([, of]) => of)
    expect([result.repaired, asked.length]).toEqual(note === null ? [count, count] : [0, 0])
    if (note === null) expect(result.note).toBeNull()
    else expect(result.note).toMatch(note)
  },
)

test('entries of a log are listed again and never deleted; what is certain and not listed is derived again, each of them', async () => {
  vi.mocked(relist).mockImplementation(async (_source, asked, reason) => {
    steps.push(['list', reason, asked.join()])
    const place = { teamId: 3, stream: 'webhook_deliveries', observedAt: at(0) } as const
    return [recordEnvelope({ id: 'a', event: 'a', created_at: '2026-01-01T00:00:00Z' }, place)]
  })
  const found = [
    ...[
      difference('a'),
      difference('b', { certain: true }),
      difference('c', { certain: true, kind: 'extra' }),
    ],
    difference('d', { kind: 'extra' }),
  ]
  await repaired('webhook_deliveries', found)
  expect(steps).toEqual([
    ...[
      ['list', 'repair', 'a,b,c,d'],
      ['load', 'a', []],
      ['expect', 'a,b,c,d', 'a'],
      ['forgotten', 3, 'a,b,c,d'],
    ],
    ...[
      ['derive', 'b,c', 'b,c'],
      ['compare', 'a,b,c,d'],
    ],
  ])
  expect(missedBefore).not.toHaveBeenCalled()
})

test('exports are deleted only if an earlier list missed them too; files of the others are read again, and those of no export removed', async () => {
  vi.mocked(relist).mockResolvedValue([])
  vi.mocked(missedBefore).mockImplementation(async (_source, _session, missed) => {
    steps.push(['missed before?', missed.join()])
    return ['e1', 'e2']
  })
  vi.mocked(storedExports).mockImplementation(async (_db, _teamId, asked) => {
    steps.push(['stored', asked.join()])
    return new Map(['e4', 'e5'].map((id) => [id, { hash: 'x', formId: id }])) as never
  })
  vi.mocked(readFile).mockImplementation(async (_source, _loader, id, known, again) => {
    steps.push(['file', id, known, again])
    return null as never
  })
  left = ['e3']
  const extra = (id: string, certain = false) => difference(id, { kind: 'extra', certain })
  const found = [extra('e1'), extra('e2'), extra('e3'), difference('e4'), difference('e5'), extra('s1', true)]
  found.push({ ...extra('s2', true), isOrphan: true })
  const result = await repaired('exports', found)
  expect(result).toEqual({
    repaired: 6,
    note: expect.stringContaining('when a complete list of another run'),
  })
  expect(steps).toEqual([
    ...[
      ['missed before?', 'e1,e2,e3,s1,s2'],
      ['load', 'e1,e2', []],
      ['expect', 'e1,e2,e3,e4,e5,s1,s2', ''],
    ],
    ...[
      ['derive', 's1,s2', 's1,s2'],
      ['stored', 'e1,e2,e3,e4,e5,s1,s2'],
    ],
    ...['e4', 'e5'].map((id) => ['file', id, { hash: null, formId: id }, false]),
    ['compare', 'e1,e2,e3,e4,e5,s1,s2'],
  ])
  const removed = JSON.stringify([3, ['s1', 's2'], 'exports'])
  expect(statements).toEqual(
    ['"intake"."export_rows"', '"intake"."export_cells"', '"intake_raw"."export_files"'].map(
      (table) => `${table} ${removed}`,
    ),
  )
})

test('records of a stream that the service does not list are derived again from what is stored', async () => {
  await repaired('packet_responses', [difference('a'), difference('b', { kind: 'extra' })] as const)
  expect(steps).toEqual([
    ['derive', 'a,b', 'a,b'],
    ['compare', 'a,b'],
  ])
  for (const part of [fetchForRun, relist]) expect(part).not.toHaveBeenCalled()
})
