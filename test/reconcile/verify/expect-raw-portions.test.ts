/** The stored payloads of a stream that the service does not list, portion by portion: all of what lives is expected. */
import { expect, test, vi } from 'vitest'
import { nextPortion } from '../../../src/reconcile/expected-from-raw.ts'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { expectRaw } from '../../../src/reconcile/verify/expect-raw.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'

vi.mock('../../../src/reconcile/expected-from-raw.ts', () => ({ nextPortion: vi.fn() }))

test('each portion begins after the one before, and what is deleted is not expected', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const tables = await describeTables(session, patients)
  const place = { teamId: 1, stream: 'patients', observedAt: at(0) } as const
  const asked: unknown[] = []
  const progress: unknown[] = []
  const portions = [
    { ids: ['a', 'b', 'c'], to: 'c' },
    { ids: ['d', 'e'], to: 'e' },
    { ids: ['f'], to: 'f' },
    { ids: [], to: null },
  ]
  vi.mocked(nextPortion).mockImplementation(async (_session, { teamId, stream }, after) => {
    asked.push(`${teamId} ${stream} after ${after}`)
    const { ids, to } = portions[asked.length - 1]!
    const live = ids.map((id) => recordEnvelope({ id, first_name: id }, place))
    return { envelopes: [...live, tombstoneEnvelope(`gone after ${after}`, place)], to }
  })
  const source = {
    ...{ taken: { teamId: 1 }, stream: patients, clock: { now: () => 0 } },
    serviceClock: { observedAt: () => at(9) },
    onProgress: (seen: unknown) => void progress.push(seen),
  }
  const read = await expectRaw(source as never, session, tables)
  expect(asked).toEqual([null, 'c', 'e', 'f'].map((after) => `1 patients after ${after}`))
  expect(progress).toEqual([3, 2, 1, 0].map((fetched) => ({ fetched, expected: null })))
  expect(read).toEqual({
    startedAt: at(9),
    stable: false,
    forgotten: 0,
    note: expect.stringContaining('lists none'),
  })
  const { rows } = await session.client.query('select id from pg_temp.expected_patients order by 1')
  expect(rows.map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
})
