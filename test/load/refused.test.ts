/**
 * Laws 4 and 9: a record that Postgres rejects becomes a dead letter as a whole, the others load, and no value leaks
 * into intake_ops.
 */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Envelope } from '../../src/core/envelope.ts'
import { countWaiting, resolveUnmet } from '../../src/load/dead-letters.ts'
import { hashesOf, noteErased } from '../../src/load/erasures.ts'
import { isUntouched } from '../../src/load/merge/load.ts'
import { type DeadLetter, readRecord } from '../../src/normalize/read-record.ts'
import { documents } from '../../src/streams/documents.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../support/envelopes.ts'
import { loadEnvelopes, rowsOf, takeWhole } from './loading.ts'

const CANARY = 'canary-7f3a'

let database: TestDatabase
let session: Session
let teamId = 0

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'dead letters' })
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

beforeEach(() => {
  teamId += 1
})

const made = () => ({ teamId, stream: 'patients' as const, observedAt: at(0), origin: 'run:1 page:1' })

const person = (id: string) => recordEnvelope({ id, first_name: CANARY, patient_tags: [CANARY] }, made())

/** Records that pass every check, but whose key, payload or child's key Postgres rejects. */
const REFUSED: readonly (readonly [string, string, (id: string) => Envelope])[] = [
  [
    'a key too long for its index',
    '54000',
    (id) => ({ ...person(id), id: id + randomBytes(6000).toString('base64') }),
  ],
  [
    'a payload that is no jsonb',
    '22P05',
    (id) => {
      const envelope = person(id)
      return {
        ...envelope,
        content: { ...envelope.content!, text: `{"first_name":"${CANARY}\\u0000\\t\\n","id":"${id}"}` },
      }
    },
  ],
  [
    'a hash that is no bytea',
    '22023',
    (id) => {
      const envelope = person(id)
      return { ...envelope, content: { ...envelope.content!, hash: 'zz' } }
    },
  ],
]

async function load(
  envelopes: readonly Envelope[],
  mode: 'straight' | 'merge',
  deadLetters: readonly DeadLetter[] = [],
  runId = '1',
) {
  const taken = await takeWhole(session, patients, teamId, runId)
  return loadEnvelopes(session, patients, envelopes, { mode, taken, deadLetters })
}

const deadLetters = () =>
  rowsOf<{
    record_id: string
    reason: string
    origin: string
    status: string
    seen: string
    fingerprint: string
    body: string
  }>(
    session,
    `select record_id, reason, origin, status, seen, fingerprint, convert_from(body, 'UTF8') as body
     from intake_ops.dead_letters join intake_raw.set_aside on dead_letter_id = id
     where team_id = $1 and stream = 'patients' order by id`,
    [teamId],
  )

const loadedIds = async () =>
  (
    await rowsOf<{ id: string }>(
      session,
      `select p.id from intake.patients p join intake.patient_tags t on (t.team_id, t.patient_id) = (p.team_id, p.id)
         join intake_raw.records r on (r.team_id, r.id) = (p.team_id, p.id) where p.team_id = $1 order by p.id`,
      [teamId],
    )
  ).map((row) => row.id)

const cases = REFUSED.flatMap(([name, state, refused]) =>
  (['straight', 'merge'] as const).map((mode) => ({ name, state, mode, refused })),
)

test.each(cases)(
  '$name becomes a dead letter, and the rest of its batch loads ($mode)',
  async ({ state, mode, refused }) => {
    const mates = Array.from({ length: 10 }, (_, at) => person(`mate ${at}`))
    const bad = refused('bad')
    const result = await load([...mates.slice(0, 6), bad, ...mates.slice(6)], mode)
    expect(result).toMatchObject({ changed: 10, deleted: 0, deadLetters: 1, conflicts: [] })
    expect(await loadedIds()).toEqual(mates.map((mate) => mate.id))
    expect(await deadLetters()).toEqual([
      expect.objectContaining({
        record_id: bad.id,
        origin: 'run:1 page:1',
        reason: `the warehouse refused the record (SQLSTATE ${state})`,
        status: 'waiting',
        seen: '1',
        body: bad.content!.text,
      }),
    ])
  },
)

test('several rejected records become a dead letter each, and a batch with no others is no failure', async () => {
  const bad = ['x', 'y', 'z'].map((id) => REFUSED[1]![2](id))
  const result = await load([bad[0]!, person('a'), bad[1]!, bad[2]!, person('b')], 'merge')
  expect(result).toMatchObject({ changed: 2, deadLetters: 3 })
  expect((await deadLetters()).map((deadLetter) => deadLetter.record_id)).toEqual(['x', 'y', 'z'])
  expect(await load(bad, 'merge')).toMatchObject({ changed: 0, deadLetters: 3 })
  expect((await deadLetters()).map((deadLetter) => deadLetter.seen)).toEqual(['2', '2', '2'])
  expect(await loadedIds()).toEqual(['a', 'b'])
})

test('the figures of a batch that was split are those of the whole, and so are its conflicts', async () => {
  const whole = async (more: readonly Envelope[], place: number) => {
    teamId += 1
    await noteErased(session.db, await hashesOf(session.db, teamId), 'gone', [
      ...['erased 0', 'erased 1'].map((id) => ({ stream: 'patients', id })),
    ])
    const parts = [0, 1].map((part) => [
      person(`erased ${part}`),
      tombstoneEnvelope(`deleted ${part}`, made()),
      recordEnvelope({ id: `odd ${part}`, date_birth: 'never' }, made()),
      person(`older ${part}`),
    ])
    const newer = (part: number) =>
      recordEnvelope({ id: `older ${part}`, first_name: 'New' }, { ...made(), observedAt: at(9) })
    await load([newer(0), newer(1)], 'merge')
    return await load([...parts[0]!, ...more.slice(0, place), ...parts[1]!, ...more.slice(place)], 'merge')
  }
  const plain = await whole([], 0)
  expect(plain).toMatchObject({ changed: 2, deleted: 2, erased: 2, problems: 2, deadLetters: 0 })
  expect([...plain.conflicts].sort()).toEqual(['older 0', 'older 1'])
  const split = await whole([REFUSED[1]![2]('bad')], 1)
  expect({ ...split, conflicts: [...split.conflicts].sort() }).toEqual({
    ...plain,
    ...{ deadLetters: 1, conflicts: ['older 0', 'older 1'] },
  })
})

const keyless = (body: unknown): DeadLetter => {
  const read = readRecord(body, { ...made(), stream: patients, invalidUtf8: false })
  if (read.kind !== 'dead') throw new Error('it loads')
  return read.deadLetter
}

test('an unreadable record becomes one dead letter, however often the batch around it is split', async () => {
  const deadLetter = keyless({ first_name: 'without a key' })
  const batch = [person('a'), REFUSED[1]![2]('x'), person('b'), REFUSED[1]![2]('y')]
  expect(await load(batch, 'merge', [deadLetter])).toMatchObject({ changed: 2, deadLetters: 3 })
  expect((await deadLetters()).map(({ record_id, seen }) => [record_id, seen])).toEqual([
    [null, '1'],
    ['x', '1'],
    ['y', '1'],
  ])
})

test('a batch for an empty table that is merged after all keeps its dead letters and problems, each once', async () => {
  await load([person('a')], 'merge')
  const odd = recordEnvelope({ id: 'odd', date_birth: 'never' }, made())
  const batch = [person('a'), odd, tombstoneEnvelope('gone', made())]
  const dead = [keyless({ first_name: 'without a key' })]
  expect(await load(batch, 'straight', dead)).toEqual({
    ...{ changed: 1, deleted: 1, erased: 0, deadLetters: 1, problems: 1, conflicts: [] },
  })
  expect((await deadLetters()).map(({ record_id, seen }) => [record_id, seen])).toEqual([[null, '1']])
  const noted = await rowsOf(session, 'select path, count from intake_ops.problems where team_id = $1', [
    teamId,
  ])
  expect(noted).toEqual([{ path: 'date_birth', count: '1' }])
  const refused = REFUSED[1]![2]('refused')
  expect(await load([...batch, refused, person('b')], 'straight', dead)).toEqual({
    ...{ changed: 1, deleted: 0, erased: 0, deadLetters: 2, problems: 1, conflicts: [] },
  })
  expect((await deadLetters()).map(({ record_id, seen }) => [record_id, seen])).toEqual([
    [null, '2'],
    ['refused', '1'],
  ])
})

test('a stream of a team is untouched until a record or a tombstone of it is stored, whatever others have', async () => {
  const untouched = async () => [
    await isUntouched(session, teamId, patients),
    await isUntouched(session, teamId, documents),
    await isUntouched(session, teamId + 1, patients),
  ]
  expect(await untouched()).toEqual([true, true, true])
  await load([tombstoneEnvelope('gone', made())], 'straight')
  expect(await untouched()).toEqual([false, true, true])
})

test('the same content again is the same dead letter, other content is another', async () => {
  const deadLetter = keyless({ first_name: CANARY })
  await load([], 'merge', [deadLetter], '1')
  await load([], 'merge', [deadLetter, deadLetter], '2')
  await load([], 'merge', [keyless({ first_name: `${CANARY} 2` })], '2')
  expect((await deadLetters()).map(({ seen, body }) => [seen, body])).toEqual([
    ['3', `{"first_name":"${CANARY}"}`],
    ['1', `{"first_name":"${CANARY} 2"}`],
  ])
})

test('a dead letter that a person has discarded, or of an erased patient, is none of those that a batch reports', async () => {
  const [discarded, waits] = [keyless({ first_name: 'discarded' }), keyless({ first_name: 'waits' })]
  expect(await load([], 'merge', [discarded], '1')).toMatchObject({ deadLetters: 1 })
  await rowsOf(
    session,
    `update intake_ops.dead_letters set status = 'discarded', settled_at = now() where team_id = $1`,
    [teamId],
  )
  const erasures = await hashesOf(session.db, teamId)
  await noteErased(session.db, erasures, 'gone', [{ stream: 'patients', id: 'gone' }])
  const erased = { ...waits, recordId: 'gone' }
  expect(await load([], 'merge', [discarded, waits, erased], '2')).toMatchObject({ deadLetters: 1 })
  expect((await deadLetters()).map(({ status, seen }) => [status, seen])).toEqual([
    ['discarded', '2'],
    ['waiting', '1'],
  ])
})

test('a dead letter that a complete scan no longer finds is resolved, and waits again when it returns', async () => {
  const [stays, goes] = [keyless({ first_name: 'stays' }), keyless({ first_name: 'goes' })]
  await load([], 'merge', [stays, goes], '1')
  await load([], 'merge', [stays], '2')
  const place = { teamId, stream: 'patients' as const, runId: '2' }
  await resolveUnmet(session.db, place)
  expect((await deadLetters()).map((deadLetter) => deadLetter.status)).toEqual(['waiting', 'resolved'])
  expect(await countWaiting(session.db, teamId, ['patients'])).toBe(1)
  expect(await countWaiting(session.db, teamId, ['forms'])).toBe(0)
  await load([], 'merge', [goes], '3')
  expect((await deadLetters()).map((deadLetter) => deadLetter.status)).toEqual([
    'waiting',
    'resolved',
    'waiting',
  ])
})

test('intake_ops contains no value of a record: not in reasons, paths, fingerprints or anywhere else', async () => {
  const drifting = recordEnvelope(
    {
      id: 'drifting',
      date_birth: CANARY,
      created_at: [CANARY],
      emergency_contact: CANARY,
      patient_tags: [{ name: `${CANARY}\u0000` }, 7],
      custom_fields: { [CANARY]: [CANARY], [`a.${CANARY}`]: '\u0000' },
      input_fields: { [CANARY]: 7 },
      mood: { [CANARY]: CANARY },
    },
    made(),
  )
  await load([drifting, REFUSED[1]![2]('refused')], 'merge', [
    keyless({ first_name: CANARY }),
    keyless(CANARY),
  ])
  const rows = await rowsOf<{ line: string }>(
    session,
    `select to_jsonb(t)::text as line from intake_ops.dead_letters t where team_id = $1
     union all select to_jsonb(t)::text from intake_ops.problems t where team_id = $1
     union all select to_jsonb(t)::text from intake_ops.drift t where team_id = $1
     union all select to_jsonb(t)::text from intake_ops.checkpoints t where team_id = $1`,
    [teamId],
  )
  expect(rows.length).toBeGreaterThan(8)
  for (const { line } of rows) expect(line).not.toContain(CANARY)
  for (const { fingerprint } of await deadLetters()) expect(fingerprint).toMatch(/^[0-9a-f]{64}$/)
})

test('problems and drift add up by path, at any position in an array, once per change', async () => {
  const record = { id: 'a', patient_tags: [1, 2, { name: 'x' }], date_birth: 'never', mood: 'good' }
  await load([recordEnvelope(record, made()), recordEnvelope({ ...record, id: 'b' }, made())], 'merge')
  const counted = (table: string) =>
    rowsOf(
      session,
      `select path, ${table === 'drift' ? 'type' : 'reason'} as what, count from intake_ops.${table} where team_id = $1 order by path`,
      [teamId],
    )
  expect(await counted('problems')).toEqual([
    { path: 'date_birth', what: 'not an ISO date', count: '2' },
    { path: 'patient_tags[]', what: 'not an object', count: '4' },
  ])
  expect(await counted('drift')).toEqual([
    { path: 'mood', what: 'string', count: '2' },
    { path: 'patient_tags[]', what: 'number', count: '4' },
  ])
})

test('the keys of free maps are counted as one, and are only in the row’s own problems', async () => {
  const counted = async (table: string, what: string) =>
    (
      await rowsOf<{ line: string }>(
        session,
        `select concat_ws(' ', path, ${what}, count) as line from intake_ops.${table} where team_id = $1
         and path ~ 'fields' order by 1`,
        [teamId],
      )
    ).map(({ line }) => line)
  const custom = { [CANARY]: 'a\u0000', [`${CANARY}.page`]: 'a\u0000', [`${CANARY}[1]`]: { deep: 'a\u0000' } }
  const fields = { [`a.${CANARY}`]: { page: [1], other: 'a\u0000' }, [CANARY]: { page: [2] }, plain: 7 }
  await load([recordEnvelope({ id: 'p', custom_fields: custom }, made())], 'merge')
  const document = { ...made(), stream: 'documents' as const }
  const taken = await takeWhole(session, documents, teamId)
  await loadEnvelopes(session, documents, [recordEnvelope({ id: 'd', input_fields: fields }, document)], {
    mode: 'merge',
    taken,
  })
  expect(await counted('drift', 'type')).toEqual(['input_fields.* number 1', 'input_fields.*.page array 2'])
  expect(await counted('problems', 'reason')).toEqual([
    'custom_fields.* holds what Postgres cannot; written visibly 3',
    'input_fields.* holds what Postgres cannot; written visibly 1',
    'input_fields.* not an object 1',
    'input_fields.*.page not a whole number of four bytes 2',
  ])
  const [row] = await rowsOf<{ paths: string[] }>(
    session,
    `select array(select p ->> 'path' from jsonb_array_elements(_problems) p) as paths
     from intake.patients where team_id = $1`,
    [teamId],
  )
  expect(row?.paths).toEqual(expect.arrayContaining([`custom_fields.${CANARY}`]))
})

test('names that differ only beyond the length limit of paths are counted together', async () => {
  // Cut at the limit, each of the two characters would leave a lone surrogate, which Postgres cannot store.
  const long = 'é'.repeat(198)
  const record = { id: 'a', [`${long}😀one`]: 1, [`${long}🧑two`]: 2, [`${long}plain`]: 3 }
  expect(await load([recordEnvelope(record, made())], 'merge')).toMatchObject({ changed: 1 })
  const rows = await rowsOf<{ count: string }>(
    session,
    'select count from intake_ops.drift where team_id = $1',
    [teamId],
  )
  expect(rows.reduce((sum, row) => sum + Number(row.count), 0)).toBe(3)
})
