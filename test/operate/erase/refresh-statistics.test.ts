/** Statistics and tables after an erasure: which tables may contain the patient, and what a login may do about them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { refreshStatistics, tablesToRewrite } from '../../../src/operate/erase/refresh-statistics.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let session: Session
const run = (text: string) => session.client.query(text)
beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  await run(`
    insert into intake.patients (team_id, id, last_name, _version, _origin)
    select 1, n::text, 'Erased', now(), 'test' from generate_series(1, 50) n`)
})
afterAll(async () => {
  await session?.close()
  await database?.drop()
})

const known = async () => {
  const { rows } = await run(
    `select array_to_string(most_common_vals::text::text[], ',') as values from pg_stats
     where schemaname = 'intake' and tablename = 'patients' and attname = 'last_name'`,
  )
  return rows.map((row) => (row as { values: string }).values)
}

test('statistics of the values that are left are made anew by the owner of a table, and by no other login', async () => {
  await run('analyze')
  expect(await known()).toEqual(['Erased'])
  await run(`update intake.patients set last_name = 'Another'`)
  await run('set role intake_loader')
  expect(await refreshStatistics(session.db)).toBe(false)
  await run('reset role')
  expect(await known()).toEqual(['Erased'])
  await refreshStatistics(session.db)
  expect(await known()).toEqual(['Another'])
})

test('all tables are rewritten but those of streams that name nobody, by a login that owns them', async () => {
  const tables = await tablesToRewrite(session.db)
  const names = tables.map(({ name }) => name)
  expect(names).toEqual(
    expect.arrayContaining([
      ...['intake.patients', 'intake.patient_tags', 'intake.responses', 'intake.response_answers'],
      ...['intake.messages', 'intake.packet_responses', 'intake.packet_response_members'],
      ...['intake.exports', 'intake.export_columns', 'intake.export_rows', 'intake.export_cells'],
      ...['intake_raw.records', 'intake_raw.record_history', 'intake_raw.inbox', 'intake_raw.set_aside'],
      ...['intake_ops.dead_letters', 'intake_ops.run_log', 'pg_catalog.pg_statistic'],
    ]),
  )
  for (const name of ['teams', 'forms', 'form_questions', 'packets', 'documents', 'webhook_configs'])
    expect(names).not.toContain(`intake.${name}`)
  expect(new Set(names).size).toBe(names.length)
  expect(tables.filter(({ own }) => !own)).toEqual([])
  expect(tables.find(({ name }) => name === 'intake.patients')!.bytes).toBeGreaterThan(8_000)
  await run('set role intake_loader')
  expect((await tablesToRewrite(session.db)).filter(({ own }) => own)).toEqual([])
  await run('reset role')
})
