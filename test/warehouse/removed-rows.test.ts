/** Notes of removed events and records: made by triggers, kept for 400 days, and those of other teams are not touched. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { ask } from '../support/sessions.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

const rows = <Row extends object>(text: string) => ask<Row>(database.url, text)
const notes = async (table: string, name: string) =>
  (
    await rows<{ note: string }>(
      `select team_id || ' ' || case when removed_at > now() - interval '1 hour' then 'now' else ${name} end as note
       from ${table} order by 1`,
    )
  ).map(({ note }) => note)

test('a removed event leaves the hash of its id, and takes the old notes of its team along', async () => {
  await rows(
    `insert into intake_ops.removed_events (team_id, event_hash, removed_at)
     select team, convert_to(days::text, 'UTF8'), now() - days * interval '1 day'
     from unnest(array[1, 2]) as team, unnest(array[399, 401]) as days;
     insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
     values (1, 'e', 'a', now(), now(), ''), (1, 'e', 'b', now(), now(), ''), (2, 'stays', 'a', now(), now(), '')`,
  )
  await rows('delete from intake_raw.inbox where team_id = 1')
  expect(await notes('intake_ops.removed_events', `convert_from(event_hash, 'UTF8')`)).toEqual([
    ...['1 399', '1 now', '2 399', '2 401'],
  ])
  expect(
    await rows(`select from intake_ops.removed_events where event_hash = sha256(convert_to('e', 'UTF8'))`),
  ).toHaveLength(1)
})

test('a removed record leaves a pseudonym until it is back, unless its team was removed', async () => {
  await rows(
    `insert into intake_raw.removed_records (team_id, stream, key, removed_at)
     select team, 'forms', days::text, now() - days * interval '1 day'
     from unnest(array[1, 2]) as team, unnest(array[399, 401]) as days;
     insert into intake_ops.removed_teams (team_id, name, data) values (3, 'removed', 'kept')`,
  )
  const store = () =>
    rows(
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
       select team, 'forms', 'f', now(), now(), true, '', 'test' from unnest(array[1, 3]) as team`,
    )
  await store()
  await rows('delete from intake_raw.records')
  const kept = ['1 399', '2 399', '2 401']
  expect(await notes('intake_raw.removed_records', 'key')).toEqual([kept[0], '1 now', ...kept.slice(1)])
  expect(await rows(`select from intake_raw.removed_records where key = 'f'`)).toEqual([])
  await store()
  expect(await notes('intake_raw.removed_records', 'key')).toEqual(kept)
})
