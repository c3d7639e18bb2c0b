/** Rows that are rewritten from records that were read before: only of records that are still as they were read. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { writeBatch } from '../../src/load/merge/write-batch.ts'
import { takeSlice } from '../../src/load/slice.ts'
import { linesOf } from '../../src/normalize/lines.ts'
import { recordsOf } from '../../src/reconcile/expected-from-raw.ts'
import { describeTables } from '../../src/reconcile/expected-tables.ts'
import { rewritePart } from '../../src/reconcile/rewrite.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../support/envelopes.ts'

/** Each is named by what changes of its record after it was read. */
const IDS = ['deleted', 'hash', 'nothing', 'origin', 'returned', 'version'] as const

let database: TestDatabase
let session: Session

beforeEach(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  await run(`insert into intake.teams (name) values ('north'), ('south')`)
  const place = { stream: 'patients', observedAt: at(0) } as const
  const envelopes = [1, 2].flatMap((teamId) =>
    IDS.map((id) =>
      id === 'returned'
        ? tombstoneEnvelope(id, { ...place, teamId })
        : recordEnvelope(
            {
              ...{ id, first_name: id, patient_tags: [{ name: 'one' }], custom_fields: { size: 1 } },
              emergency_contact: { first_name: 'Eve' },
            },
            { ...place, teamId },
          ),
    ),
  )
  await run('begin')
  await writeBatch(session, {
    stream: patients,
    lines: linesOf(patients, envelopes),
    from: { kind: 'empty' },
  })
  await run('commit')
})
afterEach(async () => {
  await session?.close()
  await database?.drop()
})

const run = async (text: string) => (await session.client.query(text)).rows
const SPOIL = `
  update intake.patients set last_name = 'spoiled', _loaded_at = '2020-01-01';
  update intake.patient_tags set name = 'spoiled';
  insert into intake.patients (team_id, id, last_name, _version, _origin)
    select team_id, id, 'spoiled', now(), 'hand' from intake.teams, unnest(array['none', 'new']) id`

/** Ids of each team whose rows are not as their records say. */
async function spoiled() {
  const rows = await run(`
    select team_id, array_agg(distinct id order by id) as ids from (
      select team_id, id from intake.patients where last_name = 'spoiled'
      union all select team_id, patient_id from intake.patient_tags where name = 'spoiled') own
    group by 1 order by 1`)
  return rows.map(({ ids }) => ids)
}

const ALL = [...IDS, 'new', 'none'].sort()

test('what changed of a record since it was read leaves its rows alone; a row is removed where there is still no record', async () => {
  const tables = await describeTables(session, patients)
  const envelopes = await recordsOf(session, { teamId: 1, stream: 'patients' }, IDS)
  await run(SPOIL)
  const raw = 'update intake_raw.records set'
  const own = `where stream = 'patients' and team_id = 1 and id =`
  await run(`
    ${raw} version = version + interval '1 microsecond' ${own} 'version';
    ${raw} deleted = true ${own} 'deleted'; ${raw} deleted = false ${own} 'returned';
    ${raw} origin = 'event:1' ${own} 'origin'; ${raw} hash = '\\x01' ${own} 'hash';
    insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
      values (1, 'patients', 'new', now(), now(), false, '\\x01', 'event:2'), (1, 'forms', 'none', now(), now(), false, '\\x01', 'x'),
        (2, 'patients', 'none', now(), now(), false, '\\x01', 'x')`)
  const part = { teamId: 1, tables, envelopes, scope: { kind: 'range', after: null, to: null } } as const
  expect(await rewritePart(session, part)).toEqual({ rewritten: 1, removed: 1 })
  expect(await spoiled()).toEqual([ALL.filter((id) => id !== 'nothing' && id !== 'none'), ALL])
  expect(
    await run(`select id, first_name, _loaded_at > '2021-01-01' as anew from intake.patients
    where team_id = 1 and last_name is null`),
  ).toEqual([{ id: 'nothing', first_name: 'nothing', anew: true }])
  expect(
    await run(`select name from intake.patient_tags where team_id = 1 and patient_id = 'nothing'`),
  ).toEqual([{ name: 'one' }])
})

test.each([
  ['all', null, null, []],
  ['those after an id', 'nothing', null, ['deleted', 'hash', 'new', 'none', 'nothing']],
  ['those up to an id', null, 'nothing', ['origin', 'returned', 'version']],
  ['those between two', 'hash', 'origin', ['deleted', 'hash', 'returned', 'version']],
])('of a range, %s are rewritten, and rows without a record removed, once', async (_, after, to, left) => {
  const tables = await describeTables(session, patients)
  const ids = IDS.filter((id) => (after === null || id > after) && (to === null || id <= to))
  const envelopes = await recordsOf(session, { teamId: 1, stream: 'patients' }, ids)
  await run(SPOIL)
  const part = { teamId: 1, tables, envelopes, scope: { kind: 'range', after, to } } as const
  const removed = ALL.filter((id) => (id === 'new' || id === 'none') && !(left as string[]).includes(id))
  expect(await rewritePart(session, part)).toEqual({ rewritten: ids.length, removed: removed.length })
  expect(await spoiled()).toEqual([...(left.length > 0 ? [left] : []), ALL])
  expect(await rewritePart(session, part)).toEqual({ rewritten: 0, removed: 0 })
})

test.each([
  'patient_tags set name',
  'patient_custom_fields set value',
  'patient_emergency_contacts set last_name',
])('a row that differs in one further table alone is written again: %s', async (change) => {
  const tables = await describeTables(session, patients)
  const envelopes = await recordsOf(session, { teamId: 1, stream: 'patients' }, IDS)
  await run(`update intake.${change} = 'spoiled' where patient_id = 'nothing'`)
  const part = { teamId: 1, tables, envelopes, scope: { kind: 'range', after: null, to: null } } as const
  expect(await rewritePart(session, part)).toEqual({ rewritten: 1, removed: 0 })
  const table = change.split(' ')[0]
  const left = `select team_id from intake.${table} own where to_jsonb(own)::text like '%spoiled%'`
  expect(await run(left)).toEqual([{ team_id: 2 }])
  expect(await rewritePart(session, part)).toEqual({ rewritten: 0, removed: 0 })
})

test('the slice cannot be taken over between the check that it is ours and the end of the rewriting', async () => {
  const tables = await describeTables(session, patients)
  const envelopes = await recordsOf(session, { teamId: 1, stream: 'patients' }, IDS)
  await run(`insert into intake_ops.runs (kind, status) values ('replay', 'running')`)
  await run(SPOIL)
  const slice = { teamId: 1, stream: 'patients', slice: '' } as const
  const taken = await takeSlice(session.db, slice, '1')
  await using writer = await openSession({ url: database.url, purpose: 'test' })
  await using other = await openSession({ url: database.url, purpose: 'test', lockTimeoutMs: 100 })
  await writer.client.query('begin; lock table intake.patients in exclusive mode')
  const scope = { kind: 'range', after: null, to: null } as const
  const rewriting = rewritePart(session, { teamId: 1, tables, envelopes, scope, taken })
  const waits = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  await expect.poll(async () => (await other.client.query(waits)).rowCount).toBe(1)
  await expect(takeSlice(other.db, slice, '1')).rejects.toMatchObject({ code: '55P03' })
  await writer.client.query('rollback')
  expect(await rewriting).toEqual({ rewritten: IDS.length, removed: 2 })
  await takeSlice(other.db, slice, '1')
  const again = rewritePart(session, { teamId: 1, tables, envelopes, scope, taken })
  await expect(again).rejects.toMatchObject({ code: 'slice_lost' })
})
