/** The records of intake_raw in portions: each once, in the order of ids, and none of another stream or team. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { nextPortion, recordsOf } from '../../src/reconcile/expected-from-raw.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

const PLACE = { teamId: 1, stream: 'forms' } as const

let database: TestDatabase
let session: Session
beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
})
afterAll(async () => {
  await session?.close()
  await database?.drop()
})

/** Records f0001, f0002, … of a team and stream. */
async function store(
  team: number,
  stream: string,
  count: number,
  payload = `jsonb_build_object('of', $1 || $2)`,
) {
  await session.client.query(
    `insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, payload, origin)
     select $1::int, $2::text, 'f' || lpad(n::text, 4, '0'), now(), now(), false, '\\x01', ${payload}, 'of ' || $1::int || $2::text
     from generate_series(1, $3::int) n`,
    [team, stream, count],
  )
}

/** The ids of each portion, by their first and last, and their number. */
async function portions(): Promise<readonly (readonly [first: string, last: string, count: number])[]> {
  const found: [string, string, number][] = []
  for (let after: string | null = null, ended = false; !ended; ) {
    const { envelopes, to } = await nextPortion(session, PLACE, after)
    expect(envelopes.filter(({ origin }) => origin !== 'of 1forms')).toEqual([])
    if (envelopes.length > 0) found.push([envelopes[0]!.id, envelopes.at(-1)!.id, envelopes.length])
    expect(to === null || to === envelopes.at(-1)!.id).toBe(true)
    after = to
    ended = to === null
  }
  return found
}

test('a portion has 2,500 records, and is the last if nothing follows', async () => {
  expect(await portions()).toEqual([])
  await store(1, 'packets', 2_600)
  await store(2, 'forms', 2_600)
  expect(await portions()).toEqual([])
  await store(1, 'forms', 2_500)
  expect(await portions()).toEqual([['f0001', 'f2500', 2_500]])
  expect((await nextPortion(session, PLACE, null)).to).toBeNull()
  await session.client.query(`
    insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
    values (1, 'forms', 'g', now(), now(), true, '', 'of 1forms')`)
  expect(await portions()).toEqual([
    ['f0001', 'f2500', 2_500],
    ['g', 'g', 1],
  ])
})

test('records that are asked for by id are those of the team and stream, each once', async () => {
  const found = await recordsOf(session, PLACE, ['g', 'f0002', 'f0001', 'f0002', 'nobody', 'f2600'])
  expect(found.map(({ id, origin, content }) => [id, origin, content?.payload ?? null])).toEqual([
    ['f0001', 'of 1forms', { of: '1forms' }],
    ['f0002', 'of 1forms', { of: '1forms' }],
    ['g', 'of 1forms', null],
  ])
})

test('a portion ends after four megabytes, and a record of more is a portion of its own', async () => {
  await session.client.query('delete from intake_raw.records where team_id = 1')
  const size = `case n when 3 then 5000000 else 1500000 end`
  await store(1, 'forms', 5, `to_jsonb(repeat('x', ${size}))`)
  const ids: string[][] = []
  for (let after: string | null = null, ended = false; !ended; ) {
    const { rows } = await session.client.query<{ id: string }>(
      `select id from intake_raw.records where team_id = 1 and stream = 'forms' and id > $1 order by id`,
      [after ?? ''],
    )
    const { envelopes, to } = await nextPortion(session, PLACE, after)
    expect(envelopes[0]!.id).toBe(rows[0]!.id)
    ids.push(envelopes.map(({ id }) => id))
    after = to
    ended = to === null
  }
  // The record with which it exceeds the limit is the last of its portion.
  expect(ids).toEqual([
    ['f0001', 'f0002', 'f0003'],
    ['f0004', 'f0005'],
  ])
})
