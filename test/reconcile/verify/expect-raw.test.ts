/** What a verification expects of a list that it reads again. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { writeBatch } from '../../../src/load/merge/write-batch.ts'
import { linesOf } from '../../../src/normalize/lines.ts'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import {
  beginExpected,
  expectForgotten,
  expectLines,
  noteUnknown,
  UNKNOWN,
} from '../../../src/reconcile/verify/expect-raw.ts'
import { patients } from '../../../src/streams/patients.ts'
import { webhookDeliveries } from '../../../src/streams/webhook-deliveries.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'

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

test('of a log, entries that the list misses are expected as they are stored, unless they are unknown or deleted', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const tables = await describeTables(session, webhookDeliveries)
  const place = { teamId: 1, stream: 'webhook_deliveries', observedAt: at(0) } as const
  const entry = (id: string) => recordEnvelope({ id, event: id, created_at: '2026-01-01T00:00:00Z' }, place)
  const run = (text: string) => session.client.query<{ id: string }>(text)
  const expected = async () => {
    const ids = []
    for (const table of ['webhook_deliveries', 'records'])
      ids.push((await run(`select id from pg_temp.expected_${table} order by id`)).rows.map(({ id }) => id))
    return ids
  }
  const begin = async () => {
    await beginExpected(session, tables)
    await expectLines(session, tables, linesOf(webhookDeliveries, [entry('listed')]))
    await noteUnknown(session, 'unknown')
  }
  await run(`insert into intake.teams (name) values ('default'), ('other')`)
  const stored = ['listed', 'unknown', 'kept', 'also kept'].map(entry)
  const all = [...stored, tombstoneEnvelope('deleted', place)]
  const lines = linesOf(webhookDeliveries, [...all, { ...entry('theirs'), teamId: 2 }])
  await run('begin')
  await writeBatch(session, { stream: webhookDeliveries, lines, from: { kind: 'empty' } })
  await run('commit')
  await begin()
  expect(await expectForgotten(session, tables, 1)).toBe(2)
  expect(await expected()).toEqual([
    ['also kept', 'kept', 'listed'],
    ['also kept', 'kept', 'listed'],
  ])
  await begin()
  expect(await expectForgotten(session, tables, 1, ['kept', 'listed', 'theirs'])).toBe(1)
  expect(await expected()).toEqual([
    ['kept', 'listed'],
    ['kept', 'listed'],
  ])
})
