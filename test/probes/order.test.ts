/** Mistakes of other tools when states of one record arrive out of order. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Envelope } from '../../src/core/envelope.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { loadEnvelopes, rowsOf, takeWhole } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../support/envelopes.ts'

let database: TestDatabase
let session: Session
let teamId = 0

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'probes' })
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

const SECOND = 1_000_000

/** A patient's state from `origin`, seen so many microseconds after noon. */
function state(name: string, seen: number, origin: string, updated?: number): Envelope {
  const record = {
    ...{ id: 'p1', last_name: name, custom_fields: { name } },
    ...(updated === undefined ? {} : { updated_at: at(updated) }),
  }
  return recordEnvelope(record, { teamId, stream: 'patients', observedAt: at(seen), origin })
}

const gone = (seen: number) =>
  tombstoneEnvelope('p1', { teamId, stream: 'patients', observedAt: at(seen), origin: 'event:gone' })

/** Loads each on its own, in this order; returns the ids to be fetched again. */
async function arrive(...envelopes: readonly Envelope[]): Promise<readonly string[]> {
  const conflicting: string[] = []
  for (const envelope of envelopes) {
    const taken = await takeWhole(session, patients, teamId)
    conflicting.push(
      ...(await loadEnvelopes(session, patients, [envelope], { mode: 'merge', taken })).conflicts,
    )
  }
  return conflicting
}

async function storedPatients() {
  const rows = await rowsOf<{ name: string | null; field: string | null; gone: boolean }>(
    session,
    `select last_name as name, c.value as field, _deleted_at is not null as gone from intake.patients p
     left join intake.patient_custom_fields c on (c.team_id, c.patient_id) = (p.team_id, p.id)
     where p.team_id = $1`,
    [teamId],
  )
  expect(rows).toHaveLength(1)
  return rows[0]!
}

const alive = (name: string) => ({ name, field: name, gone: false })
const GONE = { name: null, field: null, gone: true }

/** Both orders in which two things can arrive, each for a team of its own. */
function inBothOrders(title: string, test: (order: <T>(earlier: T, later: T) => T[]) => Promise<void>): void {
  describe(title, () => {
    it('in their order', async () => {
      teamId += 1
      await test((earlier, later) => [earlier, later])
    })
    it('in reverse order', async () => {
      teamId += 1
      await test((earlier, later) => [later, earlier])
    })
  })
}

inBothOrders(
  'two changes in the same second: the newer stays, where a cursor in seconds keeps either',
  async (order) => {
    const first = state('first', 5 * SECOND, 'event:1', 5 * SECOND + 100_000)
    const second = state('second', 5 * SECOND, 'event:2', 5 * SECOND + 100_001)
    await arrive(...order(first, second))
    expect(await storedPatients()).toEqual(alive('second'))
  },
)

inBothOrders(
  'two changes whose stamp is one and the same: the one that was seen later stays',
  async (order) => {
    const first = state('first', 5 * SECOND, 'event:1', 5 * SECOND)
    const second = state('second', 5 * SECOND + 1, 'event:2', 5 * SECOND)
    await arrive(...order(first, second))
    expect(await storedPatients()).toEqual(alive('second'))
  },
)

inBothOrders('two states with equal times: one of them wins, the same in both orders', async (order) => {
  const [one, other] = [state('one', 5 * SECOND, 'event:1'), state('other', 5 * SECOND, 'event:2')]
  await arrive(...order(one, other))
  const greater = one.content!.hash > other.content!.hash ? 'one' : 'other'
  expect(await storedPatients()).toEqual(alive(greater))
})

it('a state that arrives again, in any way, writes no row version', async () => {
  teamId += 1
  const versions = () =>
    rowsOf(
      session,
      `select r.ctid, r.xmin, p.ctid as own, p.xmin as by, c.ctid as child from intake_raw.records r
       join intake.patients p using (team_id, id)
       join intake.patient_custom_fields c on (c.team_id, c.patient_id) = (p.team_id, p.id) where r.team_id = $1`,
      [teamId],
    )
  const [event, page] = [state('one', SECOND, 'event:1'), state('one', SECOND, 'run:1 page:1')]
  await arrive(event)
  const before = await versions()
  expect(before).toHaveLength(1)
  await arrive(event, page, event)
  expect(await versions()).toEqual(before)
})

it('an old page that arrives after a newer event changes nothing, and the record is fetched again', async () => {
  teamId += 1
  // The page was requested before the event, and shows the earlier state.
  const page = state('as the page has it', 3 * SECOND, 'run:1 page:4')
  const event = state('as the event has it', 4 * SECOND, 'event:1')
  expect(await arrive(event, page)).toEqual(['p1'])
  expect(await storedPatients()).toEqual(alive('as the event has it'))
  // The same page again, from a killed run that starts over, and the same event, delivered twice.
  await arrive(page, event)
  expect(await storedPatients()).toEqual(alive('as the event has it'))
})

it('an old page that still lists a deleted record does not restore it', async () => {
  teamId += 1
  await arrive(
    state('alive', 0, 'run:1 page:1'),
    gone(4 * SECOND),
    state('alive', 3 * SECOND, 'run:2 page:1'),
  )
  expect(await storedPatients()).toEqual(GONE)
})

inBothOrders('an older event after a delete changes nothing: the record stays gone', async (order) => {
  await arrive(state('alive', 0, 'run:1 page:1'))
  await arrive(...order(state('older', 3 * SECOND, 'event:1'), gone(4 * SECOND)))
  expect(await storedPatients()).toEqual(GONE)
  // An event retried hours later is rendered again under its old time.
  await arrive(state('older, rendered anew', 3 * SECOND, 'event:1'))
  expect(await storedPatients()).toEqual(GONE)
  // A record seen after the delete is live again.
  await arrive(state('back', 5 * SECOND, 'event:3'))
  expect(await storedPatients()).toEqual(alive('back'))
})
