/** Dead letters of erased patients are not stored, in whatever way they refer to one; those of others are. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { withoutErasedDeadLetters } from '../../src/load/erased-dead-letters.ts'
import { hashesOf, noteErased } from '../../src/load/erasures.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

let database: TestDatabase
let session: Session
let [team, other, without] = [0, 0, 0]

const ERASED = '11111111-aaaa'
const ALIVE = '22222222-bbbb'

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'erased dead letters' })
  team = await teamIdOf(session.db, 'default')
  other = await teamIdOf(session.db, 'other')
  without = await teamIdOf(session.db, 'without erasures')
})
afterAll(async () => {
  await session.close()
  await database.drop()
})
beforeEach(async () => {
  await session.client.query('delete from intake_ops.erasures; delete from intake_ops.dead_letters')
  for (const [teamId, id] of [
    [team, ERASED],
    [other, ALIVE],
  ] as const) {
    const subjects = [
      { stream: 'patients', id },
      { stream: 'responses', id: `response of ${id}` },
    ] as const
    await noteErased(session.db, await hashesOf(session.db, teamId), id, subjects)
  }
})

type Stream = Parameters<typeof storeDeadLetters>[1]['stream']
const deadLetter = (recordId: string | null, body: unknown) => ({
  ...{ recordId, origin: 'run:1 page:1', reason: 'r' },
  body: Buffer.isBuffer(body) || typeof body === 'string' ? body : JSON.stringify(body),
})
/** Which of them are kept, by their place. */
async function kept(stream: Stream, deadLetters: readonly ReturnType<typeof deadLetter>[], teamId = team) {
  const left = await session.db
    .transaction()
    .execute((db) => withoutErasedDeadLetters(db, { teamId, stream }, deadLetters))
  return left.map((each) => deadLetters.indexOf(each as (typeof deadLetters)[number]))
}
const skipped = async (teamId = team) => {
  const [{ count } = { count: 0 }] = await rowsOf<{ count: number }>(
    session,
    'select sum(skipped)::int as count from intake_ops.erasures where team_id = $1',
    [teamId],
  )
  return count
}

describe('is left out', () => {
  test.each<[string, Stream, string | null, unknown]>([
    ['the patient, by the id of the dead letter', 'patients', ERASED, 'null'],
    [
      'the patient, by the id of the dead letter, though its body has another',
      'patients',
      ERASED,
      { id: ALIVE },
    ],
    ['the patient, by the id in the body', 'patients', null, { id: ERASED, first_name: 'A' }],
    ['a record that names the patient', 'responses', 'r', { id: 'r', patient: ERASED }],
    ['a record with the patient in it', 'responses', 'r', { id: 'r', patient: { id: ERASED } }],
    ['a response of the patient, by its own id', 'responses', `response of ${ERASED}`, 'null'],
    [
      'an event of the patient',
      'inbox',
      null,
      { source: 'patient', event_type: 'updated', data: { id: ERASED } },
    ],
    [
      'an event that is the id alone',
      'inbox',
      null,
      { source: 'patient', event_type: 'deleted', data: ERASED },
    ],
    [
      'an event of a record that names the patient',
      'inbox',
      null,
      { source: 'response', event_type: 'updated', data: { id: 'r', patient: { id: ERASED } } },
    ],
    [
      'an event under the stream of its record',
      'responses',
      null,
      { source: 'response', event_type: 'updated', data: { id: 'r', patient: ERASED } },
    ],
    ['a body that is no JSON and contains the id', 'inbox', null, `{"data": {"id": "${ERASED}"`],
    [
      'a body of an unknown source that contains the id',
      'inbox',
      null,
      { source: 'x', data: [{ who: ERASED }] },
    ],
    ['a body that is an array', 'patients', null, [ERASED]],
    [
      'a record with a source that is no event, as entries of a log are',
      'responses',
      null,
      { id: 'r', source: 'form', data: {}, patient: ERASED },
    ],
    [
      'an event of another stream',
      'forms',
      null,
      { source: 'response', event_type: 'x', data: { patient: ERASED } },
    ],
  ])('%s', async (_, stream, recordId, body) => {
    expect(await kept(stream, [deadLetter(recordId, body)])).toEqual([])
    expect(await skipped()).toBe(1)
    // It counts for the patient, whatever it was known by.
    const counted = await rowsOf(
      session,
      'select hash = patient_hash as own, skipped::int from intake_ops.erasures where team_id = $1 order by 1',
      [team],
    )
    expect(counted).toEqual([
      { own: false, skipped: 0 },
      { own: true, skipped: 1 },
    ])
  })
})

describe('is kept', () => {
  test.each<[string, Stream, string | null, unknown]>([
    ['another patient', 'patients', ALIVE, { id: ALIVE }],
    ['a record that names another patient', 'responses', 'r', { id: 'r', patient: ALIVE }],
    ['a record of another stream with the same id', 'forms', ERASED, { id: ERASED }],
    ['a longer word with the id in it', 'inbox', null, `{"data": "x${ERASED}x`],
    ['an empty body', 'inbox', null, Buffer.alloc(0)],
  ])('%s', async (_, stream, recordId, body) => {
    expect(await kept(stream, [deadLetter(recordId, body)])).toEqual([0])
    expect(await skipped()).toBe(0)
  })

  test('everything in a team without erasures, and what only another team erased', async () => {
    expect(await kept('patients', [deadLetter(ERASED, { id: ERASED })], without)).toEqual([0])
    expect(
      await kept('patients', [deadLetter(ERASED, { id: ERASED }), deadLetter(ALIVE, {})], other),
    ).toEqual([0])
    expect([await skipped(), await skipped(other)]).toEqual([0, 1])
  })
})

test.each([
  [7, 'x-y:z.4'],
  [8, 'x-y:z.45'],
  [100, `x_${'9'.repeat(98)}`],
])(
  'in a body that cannot be read, words of eight to a hundred characters may be ids: %i',
  async (length, id) => {
    await noteErased(session.db, await hashesOf(session.db, team), id, [{ stream: 'patients', id }])
    expect(await kept('inbox', [deadLetter(null, `{"who":"${id}"`)])).toEqual(length < 8 ? [0] : [])
  },
)

test('if there are many, the others are kept in their order, and each one left out is counted', async () => {
  const deadLetters = Array.from({ length: 501 }, (_, at) =>
    deadLetter(at % 100 === 0 ? ERASED : `p${at}`, { at }),
  )
  const others = deadLetters.flatMap((_, at) => (at % 100 === 0 ? [] : [at]))
  expect(await kept('patients', deadLetters)).toEqual(others)
  expect(await skipped()).toBe(6)
  expect(await kept('patients', [])).toEqual([])
})

test('an omitted dead letter is not stored, nor is its body', async () => {
  const place = { teamId: team, stream: 'patients', runId: null } as const
  const deadLetters = [deadLetter(ERASED, { id: ERASED }), deadLetter(ALIVE, { id: ALIVE })]
  const stored = await session.db.transaction().execute((db) => storeDeadLetters(db, place, deadLetters))
  expect(stored).toBe(1)
  const rows = await rowsOf<{ id: string; body: string }>(
    session,
    `select record_id as id, convert_from(body, 'UTF8') as body from intake_ops.dead_letters deadLetter
     join intake_raw.set_aside kept on kept.dead_letter_id = deadLetter.id`,
  )
  expect(rows).toEqual([{ id: ALIVE, body: JSON.stringify({ id: ALIVE }) }])
})
