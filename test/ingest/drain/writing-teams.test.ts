/** Batches of teams with numbers of one and two digits, and records for which there is more than one reason to fetch them. */
import { beforeEach, expect, test, vi } from 'vitest'
import type { Instant } from '../../../src/core/time.ts'
import { incomplete, overtaken } from '../../../src/ingest/drain/current.ts'
import { gather } from '../../../src/ingest/drain/gather.ts'
import { type InboxRow, remove, settle } from '../../../src/ingest/drain/inbox-rows.ts'
import { write } from '../../../src/ingest/drain/load-events.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { countSkipped, erasedAmong, openErasuresOf } from '../../../src/load/erasures.ts'
import { writeBatch } from '../../../src/load/merge/write-batch.ts'
import { type RefetchRequest, requestRefetches } from '../../../src/load/refetches.ts'
import { noonPlus, patient } from './scene.ts'

vi.mock('../../../src/ingest/drain/current.ts')
vi.mock('../../../src/ingest/drain/inbox-rows.ts')
vi.mock('../../../src/load/dead-letters.ts')
vi.mock('../../../src/load/erasures.ts')
vi.mock('../../../src/load/merge/write-batch.ts')
vi.mock('../../../src/load/refetches.ts')

let requested: readonly RefetchRequest[]
const session = { client: { query: async () => {} } } as unknown as Parameters<typeof write>[0]
const loading = { teamIds: [], apiVersionOf: () => 'v2.1', usual: { of: async () => new Map() } }

beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(openErasuresOf).mockResolvedValue(new Map())
  vi.mocked(incomplete).mockResolvedValue({ losing: new Set(), sparse: new Set() })
  vi.mocked(overtaken).mockResolvedValue(new Set())
  vi.mocked(writeBatch).mockResolvedValue({ conflicts: [] } as never)
  vi.mocked(settle).mockResolvedValue([])
  vi.mocked(requestRefetches).mockImplementation(async (_, requests) => {
    requested = requests
    return 0
  })
})

const row = (teamId: number, seq: number, body: object | string) =>
  ({
    ...{ teamId, seq: `${seq}`, eventId: `e${seq}`, receivedAt: noonPlus(100 + seq) as Instant },
    body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
  }) as InboxRow
const event = (id: string) => ({
  ...{ id: 'e', timestamp: noonPlus(1), event_type: 'updated', source: 'patient', data: patient(id) },
})
async function writeRows(...rows: readonly InboxRow[]) {
  return await write(session, loading, { rows, gathered: await gather(rows, loading.apiVersionOf) })
}

test('erasures are looked up, and dead letters stored, in the order of the numbers of teams, as every process does', async () => {
  await writeRows(...[10, 9, 100].map((teamId, at) => row(teamId, at, '{')))
  expect(vi.mocked(openErasuresOf).mock.lastCall![1]).toEqual([9, 10, 100])
  expect(vi.mocked(storeDeadLetters).mock.calls.map(([, { teamId }]) => teamId)).toEqual([9, 10, 100])
})

test('a record that may be partial, and has an earlier event that is still pending, is fetched for both reasons', async () => {
  vi.mocked(incomplete).mockResolvedValue({ losing: new Set(['9/a']), sparse: new Set() })
  vi.mocked(overtaken).mockResolvedValue(new Set(['9/patient/a', '10/patient/b']))
  const { refetches } = await writeRows(row(9, 1, event('a')), row(9, 2, event('b')), row(10, 3, event('b')))
  expect(requested.map(({ teamId, id, reason }) => `${teamId} ${id} ${reason}`)).toEqual([
    ...['9 a partial', '9 a contested', '10 b contested'],
  ])
  // Those that are stored count, not those that are asked for.
  expect(refetches).toBe(0)
})

test('each of several records that may be partial, has too few fields, or conflicts is fetched', async () => {
  const keys = (...ids: readonly string[]) => new Set(ids.flatMap((id) => [`9/${id}`, `10/${id}`]))
  vi.mocked(incomplete).mockResolvedValue({ losing: keys('a', 'b'), sparse: keys('c', 'd') })
  const conflicts = ['e', 'f'].flatMap((id) => [9, 10].map((teamId) => ({ teamId, id })))
  vi.mocked(writeBatch).mockResolvedValue({ conflicts } as never)
  const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
  const rows = [9, 10].flatMap((teamId) => ids.map((id, at) => row(teamId, teamId * 10 + at, event(id))))
  await writeRows(...rows)
  expect(requested.map(({ teamId, id, reason }) => `${teamId} ${id} ${reason}`)).toEqual([
    ...['9 a partial', '9 b partial', '10 a partial', '10 b partial'],
    ...['9 c partial', '10 c partial', '9 d partial', '10 d partial'],
    ...['9 e contested', '10 e contested', '9 f contested', '10 f contested'],
  ])
  expect(vi.mocked(writeBatch).mock.calls[0]![1].lines.count).toBe(10)
})

test('a record that lacks a value of an event before it, and one that lacks a stored value, are both fetched', async () => {
  vi.mocked(incomplete).mockResolvedValue({ losing: new Set(['9/b']), sparse: new Set() })
  const { first_name: _, ...lacking } = patient('a')
  const whole = { ...event('a'), data: { ...patient('a'), first_name: 'Given' } }
  const part = { ...event('a'), timestamp: noonPlus(2), data: lacking }
  await writeRows(row(9, 1, whole), row(9, 2, part), row(9, 3, event('b')))
  expect(requested.map(({ id, reason, origin }) => `${id} ${reason} ${origin}`)).toEqual([
    ...['a partial event:e2', 'b partial event:e3'],
  ])
})

test('events of erased patients are removed in every team, whichever of the patients that they name was erased', async () => {
  const hashes = (teamId: number) => ({
    teamId,
    hashOf: ({ stream, id }: { stream: string; id: string }) => `${teamId} ${stream} ${id}`,
  })
  vi.mocked(openErasuresOf).mockResolvedValue(new Map([9, 10].map((teamId) => [teamId, hashes(teamId)])))
  const gone = ['9 patients erased-one', '9 patients erased-two', '10 patients erased-two']
  vi.mocked(erasedAmong).mockImplementation(
    async (_, asked) =>
      new Map(gone.filter((hash) => asked.includes(hash)).map((hash) => [hash, `of ${hash}`])),
  )
  const cut = '{"cut: "somebody-else", "erased-two", "one-more-word"'
  const rows = [9, 10].flatMap((teamId) => [
    row(teamId, teamId * 10, event('erased-one')),
    row(teamId, teamId * 10 + 1, event('erased-two')),
    row(teamId, teamId * 10 + 2, cut),
    row(teamId, teamId * 10 + 3, event('stays')),
  ])
  const { rows: left } = await writeRows(...rows)
  expect(left.map(({ eventId }) => eventId)).toEqual(['e93', 'e100', 'e103'])
  expect(vi.mocked(remove).mock.lastCall![1].map(({ eventId }) => eventId)).toEqual([
    ...['e90', 'e91', 'e92', 'e101', 'e102'],
  ])
  expect(vi.mocked(countSkipped).mock.calls.map(([, { teamId }, skipped]) => [teamId, skipped])).toEqual([
    [
      9,
      [
        { hash: gone[0], patient: `of ${gone[0]}`, times: 1 },
        { hash: gone[1], patient: `of ${gone[1]}`, times: 2 },
      ],
    ],
    [10, [{ hash: gone[2], patient: `of ${gone[2]}`, times: 2 }]],
  ])
  expect([...vi.mocked(writeBatch).mock.calls[0]![1].withoutErasures!]).toEqual([])
})
