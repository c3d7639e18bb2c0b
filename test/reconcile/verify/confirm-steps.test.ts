/** What each of many differences counts as, and how they are looked at again, without a warehouse. */
import { beforeEach, expect, test, vi } from 'vitest'
import type { Instant } from '../../../src/core/time.ts'
import { fetchForRun } from '../../../src/extract/conflicts/fetch-by-id.ts'
import { confirmDifferences, type StreamComparison } from '../../../src/reconcile/verify/confirm.ts'
import { expectLines, expectRaw, noteUnknown } from '../../../src/reconcile/verify/expect-raw.ts'
import { expectSource, forget } from '../../../src/reconcile/verify/expect-source.ts'
import { type Difference, findDifferences } from '../../../src/reconcile/verify/find.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { scripted } from '../../support/scripted.ts'

vi.mock('../../../src/extract/conflicts/fetch-by-id.ts', () => ({ fetchForRun: vi.fn() }))
vi.mock('../../../src/reconcile/verify/expect-raw.ts', () => ({
  ...{ expectLines: vi.fn(), expectRaw: vi.fn(), noteUnknown: vi.fn() },
}))
vi.mock('../../../src/reconcile/verify/expect-source.ts', () => ({ expectSource: vi.fn(), forget: vi.fn() }))
vi.mock('../../../src/reconcile/verify/find.ts', () => ({ findDifferences: vi.fn() }))

const NOW = '2026-01-05T10:00:00.000000Z'
let steps: string[]
const difference = (id: string, more: Partial<Difference> = {}): Difference => ({
  ...{
    id,
    kind: 'different',
    fields: ['x'],
    certain: false,
    newer: false,
    payloadOnly: false,
    isOrphan: false,
  },
  ...more,
})
const many = (count: number, prefix: string, more: Partial<Difference> = {}) =>
  Array.from({ length: count }, (_, at) => difference(`${prefix}${String(at).padStart(3, '0')}`, more))
const idsOf = (found: readonly { readonly id: string }[]) => found.map(({ id }) => id)

beforeEach(() => {
  steps = []
  vi.resetAllMocks()
  vi.mocked(forget).mockImplementation(
    async (_session, _tables, ids) => void steps.push(`forget ${ids.length}`),
  )
  vi.mocked(noteUnknown).mockImplementation(async (_session, id) => void steps.push(`unknown ${id}`))
  vi.mocked(expectLines).mockImplementation(async () => void steps.push('expect'))
  const read = (what: string) => async () => {
    steps.push(what)
    return { startedAt: 'the second reading' as Instant } as never
  }
  vi.mocked(expectSource).mockImplementation(read('list'))
  vi.mocked(expectRaw).mockImplementation(read('stored payloads'))
})

/** Each look finds the next of `found`, among the ids that it asks for. */
async function confirm(
  name: 'patients' | 'webhook_deliveries' | 'webhook_configs' | 'packet_responses',
  found: readonly (readonly Difference[])[],
  { requests = 1, loggedUntil = null as Instant | null, come = false } = {},
) {
  const searches: unknown[] = []
  vi.mocked(findDifferences).mockImplementation(async (_session, { teamId, since, from }, among) => {
    searches.push([teamId, since, from, among.kind === 'ids' ? among.ids.length : 'all'])
    const own = found[steps.filter((step) => step.startsWith('pause')).length] ?? []
    return among.kind === 'ids' ? own.filter(({ id }) => among.ids.includes(id)) : own
  })
  const stream = streamNamed(name)!
  const clock = { now: () => 1_000_000_000, sleep: async (ms: number) => void steps.push(`pause ${ms}`) }
  const comparing = {
    source: { stream, clock, serviceClock: { observedAt: () => NOW }, taken: { teamId: 3 }, signal: null },
    session: { db: scripted((text) => [text.includes('exists') ? { come } : { at: 'a later moment' }]) },
    ...{ scanning: {}, tables: { stream }, loggedUntil, requests },
  } as unknown as StreamComparison
  const result = await confirmDifferences(comparing, {
    startedAt: 'the first reading' as Instant,
    from: 'then',
  })
  return { result, searches }
}

test('each of many differences that are certain, of payloads alone, or not due yet is counted, and none is looked at again', async () => {
  const found = [
    ...many(3, 'p', { payloadOnly: true }),
    ...many(4, 'n', { newer: true, kind: 'missing' }),
    ...many(2, 'c', { certain: true }),
  ]
  const { result, searches } = await confirm('webhook_deliveries', [found], { loggedUntil: 'x' as Instant })
  expect(result).toEqual({
    differences: many(2, 'c', { certain: true }),
    newer: 0,
    notDue: 4,
    payloadsOnly: 3,
  })
  expect([steps, searches]).toEqual([[], [[3, 'the first reading', 'then', 'all']]])
})

test('what is newer in a stream that is no log is looked at again, and counts once it is equal', async () => {
  const found = [...many(51, 'n', { newer: true, kind: 'missing' }), difference('d')]
  const { result, searches } = await confirm('patients', [found, [difference('d')]])
  expect(result).toEqual({ differences: [difference('d')], newer: 51, notDue: 0, payloadsOnly: 0 })
  expect(steps).toEqual(['list', 'pause 500'])
  expect(searches.at(-1)).toEqual([3, 'the second reading', 'a later moment', 'all'])
})

test('only what differs in every look, and is not newer by then, is a difference; others than the first found are none', async () => {
  const lasting = many(51, 'p')
  const first = [...lasting, ...['a', 'b', 'c', 'd'].map((id) => difference(id))]
  const second = [
    ...[
      ...lasting,
      difference('a'),
      difference('b', { newer: true }),
      difference('c', { payloadOnly: true }),
    ],
    ...[difference('d'), difference('other')],
  ]
  const third = [...lasting, difference('d'), difference('other')]
  const { result } = await confirm('patients', [first, second, third, third], { come: true })
  expect([idsOf(result.differences), result.newer]).toEqual([['d', ...idsOf(lasting)], 3])
  expect(steps).toEqual(['list', 'pause 1000', 'list', 'pause 2500', 'list', 'pause 6000'])
})

test('records of a stream without a list are compared with the stored payloads again', async () => {
  const { result } = await confirm('packet_responses', [[difference('a')], [difference('a')]])
  expect([idsOf(result.differences), steps]).toEqual([['a'], ['stored payloads', 'pause 500']])
})

test('records are fetched by id two hundred at a time; of those that cannot be read now, or at all, nothing is expected', async () => {
  const first = many(201, 'p')
  const kinds: Record<string, string> = { p000: 'dead', p001: 'later', p002: 'gone', p200: 'dead' }
  vi.mocked(fetchForRun).mockImplementation(async (_source, ids, reason) => {
    steps.push(`${reason} ${ids.length}`)
    return ids.map((id) => ({ kind: kinds[id] ?? 'gone' })) as never
  })
  const { result } = await confirm('patients', [first, first, first], { requests: 300 })
  expect(steps).toEqual([
    ...['refetch 200', 'forget 200', 'expect', 'unknown p000', 'unknown p001'],
    ...['refetch 1', 'forget 1', 'expect', 'unknown p200', 'pause 500'],
  ])
  expect([result.differences.length, result.newer]).toEqual([201, 0])
})
