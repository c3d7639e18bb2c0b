/** The search after an erasure: what it looks for, however much it is, and where it may not look. */
import { expect, test } from 'vitest'
import { searchEverywhere } from '../../../src/operate/erase/search.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'

test('an identifier is found in bytes and lists of them too, also as a string of JSON spells it', async () => {
  await using warehouse = await createTestDatabase()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  const identifier = 'Zo\u00eb "Z" \\\\ Example'
  await session.client.query(
    'create schema copies; create table copies.files (plain bytea, json bytea, other bytea, pages bytea[], others bytea[])',
  )
  await session.client.query(
    'insert into copies.files values ($1::bytea, $2, $3::bytea, array[$3, null, $1], array[$3])',
    [
      Buffer.from(`of ${identifier}`),
      Buffer.from(JSON.stringify({ of: identifier })),
      Buffer.from('of somebody else'),
    ],
  )
  const { left } = await searchEverywhere(session.db, { teamId: 1, id: 'p' }, [identifier])
  expect(left).toEqual(
    ['json', 'pages', 'plain'].map((column) => ({ table: 'copies.files', column, rows: 1 })),
  )
})

test('each of many identifiers is looked for, short ones only with an @, and tables that may not be read are named', async () => {
  await using warehouse = await createTestDatabase()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  const { client, db } = session
  await client.query(`
    create schema copies;
    create table copies.notes (note text, number int);
    create table copies.secret (note text);
    create table copies.numbers (number int);
    grant usage on schema copies to intake_loader;
    grant select on copies.notes to intake_loader`)
  const identifiers = Array.from({ length: 401 }, (_, at) => `response-${1_000 + at}`)
  const noted = [0, 199, 200, 399, 400].map((at) => `of ${identifiers[at]} and others`)
  const more = ['short: sevench', 'long: eightchr', 'to a@b.c', 'response-2000']
  await client.query('insert into copies.notes (note) select unnest($1::text[])', [[...noted, ...more]])
  await client.query(`
    create materialized view copies.seen as select note from copies.notes;
    create view copies.shown as select note from copies.notes;
    grant select on copies.seen, copies.shown to intake_loader`)
  await client.query('set role intake_loader')
  const given = [...identifiers, ...identifiers, 'sevench', 'eightchr', 'a@b.c']
  const searched = await searchEverywhere(db, { teamId: 1, id: 'p' }, given)
  expect(searched).toMatchObject({
    ...{ identifiers: 403, leftOut: 1, unreadable: expect.arrayContaining(['copies.secret']) },
    left: ['copies.notes', 'copies.seen'].map((table) => ({ table, column: 'note', rows: 7 })),
  })
  expect(searched.unreadable).not.toContain('copies.notes')
  // Only columns that were searched are counted.
  await client.query(`
    reset role;
    create table copies.more (note text, names text[], number int, at timestamptz, body jsonb, bodies jsonb[], bytes bytea);
    set role intake_loader`)
  const columns = async () => (await searchEverywhere(db, { teamId: 1, id: 'p' }, [])).columns
  expect(await columns()).toBe(searched.columns)
  await client.query('reset role; grant select on copies.more to intake_loader; set role intake_loader')
  expect(await columns()).toBe(searched.columns + 5)
})

test('what another patient of the team has too is not looked for, and what a patient of another team has is', async () => {
  await using warehouse = await createTestDatabase()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  const [shared, own] = ['family@Example.com', 'own@example.com']
  await session.client.query(
    `insert into intake.patients (team_id, id, email, _version, _origin)
     values (1, 'q', $1, now(), 'test'), (2, 'q', $2, now(), 'test')`,
    ['Family@example.com', own],
  )
  expect(await searchEverywhere(session.db, { teamId: 1, id: 'p' }, [shared, own])).toMatchObject({
    ...{ identifiers: 1, leftOut: 1, left: [{ table: 'intake.patients', column: 'email', rows: 1 }] },
  })
})
