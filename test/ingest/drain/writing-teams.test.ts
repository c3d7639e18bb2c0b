/** Batches of teams with numbers of one and two digits, and records for which there is more than one reason to fetch them. */
import { beforeEach, expect, test, vi } from 'vitest'
import type { Instant } from '../../../src/core/time.ts'
import { incomplete, overtaken } from '../../../src/ingest/drain/current.ts'
import { gather } from '../../../src/ingest/drain/gather.ts'
import { type InboxRow, settle } from '../../../src/ingest/drain/inbox-rows.ts'
import { write } from '../../../src/ingest/drain/load-events.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { openErasuresOf } from '../../../src/load/erasures.ts'
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
