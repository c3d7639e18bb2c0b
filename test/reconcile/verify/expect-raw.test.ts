/** What a verification expects of a list that it reads again. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { linesOf } from '../../../src/normalize/lines.ts'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { beginExpected, expectLines, noteUnknown, UNKNOWN } from '../../../src/reconcile/verify/expect-raw.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'
import { at, recordEnvelope } from '../../support/envelopes.ts'

test('a record that could not be expected is known again when the list is read again', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const tables = await describeTables(session, patients)
  const unknown = async () => (await sql<{ id: string }>`select id from ${UNKNOWN}`.execute(session.db)).rows
  await beginExpected(session, tables)
  await noteUnknown(session, 'p')
  expect(await unknown()).toEqual([{ id: 'p' }])
  await beginExpected(session, tables)
  expect(await unknown()).toEqual([])
})

test('of a batch, records that Postgres refuses are unknown, and the others are expected; any other failure is one', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const tables = await describeTables(session, patients)
  await beginExpected(session, tables)
  const run = (text: string) => session.client.query<{ id: string }>(text)
  const ids = async (table: string) =>
    (await run(`select id from pg_temp.${table} order by id`)).rows.map(({ id }) => id)
  const place = { teamId: 1, stream: 'patients', observedAt: at(0) } as const
  const lines = (...all: readonly string[]) =>
    linesOf(
      patients,
      all.map((id) => recordEnvelope({ id, first_name: id }, place)),
    )
  await run(`alter table pg_temp.expected_patients add check (id not in ('b', 'e'))`)
  await expectLines(session, tables, lines('a', 'b', 'c', 'd', 'e'))
  expect(await ids('expected_patients')).toEqual(['a', 'c', 'd'])
  expect(await ids('expected_records')).toEqual(['a', 'c', 'd'])
  expect(await ids('unknown')).toEqual(['b', 'e'])
  await run(`
    create function pg_temp.fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100'; end $$;
    create trigger fail before insert on pg_temp.expected_patients for each row execute function pg_temp.fail()`)
  await expect(expectLines(session, tables, lines('f'))).rejects.toMatchObject({ code: '53100' })
  expect(await ids('unknown')).toEqual(['b', 'e'])
})
