/** A replay of several teams and streams, portion by portion: what is counted, said and rewritten, without a warehouse. */
import pino from 'pino'
import { beforeEach, expect, test, vi } from 'vitest'
import { matchQuestions } from '../../src/load/exports/file-problems.ts'
import { openLoaders } from '../../src/load/merge/loaders.ts'
import { beginRun, finishRun, lockStreams } from '../../src/load/runs.ts'
import { nextPortion } from '../../src/reconcile/expected-from-raw.ts'
import { replay } from '../../src/reconcile/replay.ts'
import { replayFiles } from '../../src/reconcile/replay-files.ts'
import { type RewritePortion, rewritePart } from '../../src/reconcile/rewrite.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { readTeams } from '../../src/warehouse/teams.ts'

vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({ db: 'db', [Symbol.asyncDispose]: async () => {} }),
}))
vi.mock('../../src/warehouse/teams.ts', async (original) => ({ ...(await original()), readTeams: vi.fn() }))
vi.mock('../../src/load/exports/file-problems.ts', () => ({ matchQuestions: vi.fn() }))
vi.mock('../../src/load/merge/loaders.ts', () => ({ openLoaders: vi.fn() }))
vi.mock('../../src/load/runs.ts', () => ({
  ...{ beginRun: vi.fn(), finishRun: vi.fn(), lockStreams: vi.fn() },
  withinRun: async ({ signal }: { signal: AbortSignal }, work: (of: AbortSignal) => unknown) =>
    await work(signal),
}))
vi.mock('../../src/reconcile/expected-from-raw.ts', () => ({ nextPortion: vi.fn() }))
vi.mock('../../src/reconcile/expected-tables.ts', () => ({
  describeTables: async (_: unknown, { name }: { name: string }) => ({
    files: name === 'exports' ? ['rows'] : [],
  }),
}))
vi.mock('../../src/reconcile/replay-files.ts', () => ({ replayFiles: vi.fn() }))
vi.mock('../../src/reconcile/rewrite.ts', () => ({ rewritePart: vi.fn() }))

let steps: string[]
let warned: object[]
/** Ids of the portions of each stream of each team; the last one has no next. */
let stored: Readonly<Record<string, readonly (readonly string[])[]>>
/** Ids that Postgres refuses. */
let refused: ReadonlySet<string>

const team = (teamId: number, name: string, isRemoved = false) => ({ teamId, name, isRemoved })
const refusal = () => Object.assign(new Error('refused'), { code: '23514' })
const scopeOf = ({ scope }: RewritePortion) =>
  scope.kind === 'range' ? `(${scope.after ?? ''}, ${scope.to ?? ''}]` : scope.kind

beforeEach(() => {
  vi.resetAllMocks()
  steps = []
  warned = []
  stored = {}
  refused = new Set()
  vi.mocked(readTeams).mockResolvedValue([team(5, 'south'), team(2, 'north'), team(3, 'gone', true)] as never)
  vi.mocked(beginRun).mockResolvedValue('7')
  vi.mocked(openLoaders).mockImplementation(({ onRetry }) => {
    const of = (teamId: number) => ({
      ready: async () => {},
      run: async (work: (loader: object) => unknown) => {
        if (steps.length === 0) onRetry!('40001', 1, teamId)
        return await work({ teamId })
      },
    })
    return { ofTeam: of, [Symbol.asyncDispose]: async () => {} } as never
  })
  vi.mocked(nextPortion).mockImplementation(async (_session, { teamId, stream }, after) => {
    const portions = stored[`${teamId} ${stream}`] ?? [[]]
    const at = after === null ? 0 : portions.findIndex((ids) => ids.at(-1) === after) + 1
    const ids = portions[at]!
    return {
      envelopes: ids.map((id) => ({ id })),
      to: at === portions.length - 1 ? null : ids.at(-1)!,
    } as never
  })
  vi.mocked(rewritePart).mockImplementation(async (_loader, part) => {
    const ids = part.envelopes.map(({ id }) => id)
    steps.push(`${part.teamId} ${scopeOf(part)} ${ids.join()}`)
    if (ids.some((id) => refused.has(id))) throw refusal()
    return { rewritten: ids.length, removed: 1 }
  })
  vi.mocked(matchQuestions).mockImplementation(async (_db, teamId) => steps.push(`questions of ${teamId}`))
})

async function replayed(
  names: readonly ('forms' | 'packets' | 'exports')[],
  signal = new AbortController().signal,
) {
  const progress: string[] = []
  const logger = pino(
    { base: null, timestamp: false },
    { write: (line: string) => void warned.push(JSON.parse(line)) },
  )
  const summary = await replay({
    ...{
      url: 'postgres://w',
      streams: names.map((name) => streamNamed(name)!),
      clock: { now: () => 0 } as never,
    },
    ...{ logger, signal },
    onProgress: (name, stream, records) => void progress.push(`${name}/${stream} ${records}`),
  })
  return { summary, progress }
}
const report = (more: object = {}) => ({
  ...{ status: 'succeeded', records: 0, rewritten: 0, removed: 1, refused: 0, seconds: 0, note: null },
  ...more,
})

test('every stream of every team is rebuilt, teams by their number; their portions cover all ids, and counts are sums', async () => {
  stored = {
    '2 forms': [['a', 'b'], ['c'], ['d', 'e']],
    '2 packets': [['f']],
    '5 forms': [['g', 'h'], []],
  }
  const { summary, progress } = await replayed(['forms', 'packets'])
  expect(summary).toEqual({
    ...{ runId: '7', status: 'succeeded' },
    teams: [
      {
        name: 'north',
        streams: [
          { stream: 'forms', report: report({ records: 5, rewritten: 5, removed: 3 }) },
          { stream: 'packets', report: report({ records: 1, rewritten: 1 }) },
        ],
      },
      {
        name: 'south',
        streams: [
          { stream: 'forms', report: report({ records: 2, rewritten: 2, removed: 2 }) },
          { stream: 'packets', report: report() },
        ],
      },
    ],
  })
  expect(steps).toEqual([
    ...['2 (, b] a,b', '2 (b, c] c', '2 (c, ] d,e', '2 (, ] f', 'questions of 2'],
    ...['5 (, h] g,h', '5 (h, ] ', '5 (, ] ', 'questions of 5'],
  ])
  expect(progress).toEqual([
    ...['north/forms 2', 'north/forms 3', 'north/forms 5', 'north/packets 1'],
    ...['south/forms 2', 'south/forms 2', 'south/packets 0'],
  ])
  expect(vi.mocked(beginRun).mock.calls[0]!.slice(1)).toEqual([
    ...['replay', { streams: ['forms', 'packets'], teams: ['north', 'south'] }],
  ])
  expect(vi.mocked(lockStreams).mock.calls[0]![2].map(({ name }) => name)).toEqual(['north', 'south'])
  expect(vi.mocked(finishRun).mock.calls[0]!.slice(1)).toEqual(['7', 'succeeded', null])
  expect(warned).toEqual([
    expect.objectContaining({
      team: 'north',
      code: '40001',
      attempt: 1,
      msg: expect.stringContaining('again'),
    }),
  ])
})

test('each of several records that Postgres refuses is found by halves that leave no id out; all others are rewritten', async () => {
  stored = {
    '2 forms': [
      ['a', 'b', 'c', 'd', 'e'],
      ['f', 'g'],
    ],
  }
  refused = new Set(['b', 'e', 'g'])
  const { summary } = await replayed(['forms'])
  const note = '3 of its records could not be rebuilt; their rows are unchanged'
  expect(summary.teams[0]!.streams[0]!.report).toEqual(
    report({ status: 'needs_attention', records: 7, rewritten: 4, removed: 4, refused: 3, note }),
  )
  // Both portions are rewritten at once.
  const first = steps.filter((step) => step.startsWith('2') && !/ [fg,]+$/.test(step))
  expect(first).toEqual([
    ...['2 (, e] a,b,c,d,e', '2 (, b] a,b', '2 (, a] a', '2 (a, b] b'],
    ...['2 (b, e] c,d,e', '2 (b, c] c', '2 (c, e] d,e', '2 (c, d] d', '2 (d, e] e'],
  ])
  expect(steps.filter((step) => / [fg,]+$/.test(step))).toEqual(['2 (e, ] f,g', '2 (e, f] f', '2 (f, ] g'])
  expect([summary.status, vi.mocked(finishRun).mock.calls[0]![3]]).toEqual([
    ...['needs_attention', `north/forms: ${note}`],
  ])
})

test('files of exports are rebuilt first, and count with the rest; each reason names its team and stream', async () => {
  stored = { '2 exports': [['a']], '2 forms': [['x']], '5 exports': [['b', 'c']], '5 forms': [['x']] }
  refused = new Set(['x'])
  vi.mocked(replayFiles).mockImplementation(async ({ teamId }) => {
    steps.push(`files of ${teamId}`)
    return { rewritten: 10, refused: teamId === 5 ? 2 : 0 }
  })
  const { summary } = await replayed(['forms', 'exports'])
  expect(summary.teams.map(({ streams }) => streams[1]!.report)).toEqual([
    report({ records: 1, rewritten: 11 }),
    report({
      ...{ records: 2, rewritten: 12, refused: 2, status: 'needs_attention' },
      note: expect.any(String),
    }),
  ])
  const why = (count: number) => `${count} of its records could not be rebuilt; their rows are unchanged`
  expect(vi.mocked(finishRun).mock.calls[0]![3]).toBe(
    [`north/forms: ${why(1)}`, `south/forms: ${why(1)}`, `south/exports: ${why(2)}`].join('\n'),
  )
  expect(steps.filter((step) => /files|b,c|\ba\b/.test(step))).toEqual([
    ...['files of 2', '2 (, ] a', 'files of 5', '5 (, ] b,c'],
  ])
})

test('the first failure is that of the stream, and of several streams the worst is that of the run', async () => {
  stored = { '2 forms': [['a'], ['b'], ['c']], '2 packets': [['d']] }
  const failed = (code: string) => Object.assign(new Error('away'), { code })
  vi.mocked(rewritePart).mockImplementation(async (_loader, { envelopes }) => {
    const [id] = envelopes.map((each) => each.id)
    if (id === 'a') throw failed('53100')
    if (id === 'b') throw failed('57P03')
    return { rewritten: 1, removed: 0 }
  })
  const { summary } = await replayed(['forms', 'packets'])
  const [forms, packets] = summary.teams[0]!.streams
  expect(forms!.report).toMatchObject({ status: 'failed', records: 0, rewritten: 0 })
  expect(packets!.report).toMatchObject({ status: 'succeeded', records: 1, rewritten: 1 })
  expect(warned).toContainEqual(
    expect.objectContaining({ team: 'north', stream: 'forms', code: 'disk_full', level: 50 }),
  )
  expect([summary.status, vi.mocked(finishRun).mock.calls[0]![3]]).toEqual([
    ...['failed', `north/forms: ${forms!.report.note}`],
  ])
})
