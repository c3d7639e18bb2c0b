/** What each pair of an expected and a stored record is called: missing, extra, different, certain, newer, or by its payload only. */
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { Envelope } from '../../../src/core/envelope.ts'
import type { Instant } from '../../../src/core/time.ts'
import { writeBatch } from '../../../src/load/merge/write-batch.ts'
import { linesOf } from '../../../src/normalize/lines.ts'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { beginExpected, expectLines, noteUnknown } from '../../../src/reconcile/verify/expect-raw.ts'
import { type Difference, findDifferences, type SearchScope } from '../../../src/reconcile/verify/find.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Stream } from '../../../src/streams/stream.ts'
import { webhookDeliveries } from '../../../src/streams/webhook-deliveries.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { at, recordEnvelope } from '../../support/envelopes.ts'

let database: TestDatabase
let session: Session
beforeEach(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'test' })
  await run(`insert into intake.teams (name) values ('north'), ('south')`)
})
afterEach(async () => {
  await session?.close()
  await database?.drop()
})
const run = (text: string) => session.client.query(text)

/** Expects and stores the records with these ids. */
async function begin(stream: Stream, expected: readonly Envelope[], stored: readonly Envelope[]) {
  const tables = await describeTables(session, stream)
  await beginExpected(session, tables)
  await expectLines(session, tables, linesOf(stream, expected))
  await run('begin')
  await writeBatch(session, { stream, lines: linesOf(stream, stored), from: { kind: 'empty' } })
  await run('commit')
  return tables
}

const UPDATED = '2025-06-01T00:00:00Z'
const person = (id: string, teamId = 1) =>
  recordEnvelope(
    { id, first_name: 'A', updated_at: UPDATED, patient_tags: [{ name: 'one' }] },
    { teamId, stream: 'patients', observedAt: at(0) },
  )

/** The reading took a second, from `at(0)`; the warehouse says it began at the beginning of 2026. */
const scope = { teamId: 1, from: '2026-01-01', since: at(0), until: at(1_000_000), loggedUntil: null }

const DIFFERENT = [
  'blank',
  'value',
  'tags',
  'record',
  'newer',
  'too new',
  'written before',
  'not later',
  'payload',
  'dated',
  'hash',
]
const BOTH = ['equal', 'unknown', 'deleted', 'no row', ...DIFFERENT]
const EXTRA = ['extra', 'no record', 'record deleted', 'left in a tombstone', 'tombstone', 'since']
const ORPHANS = ['orphan', 'orphan of a record']

/** Stored records as something has made them. */
const EDITS = `
  update intake.patients set _loaded_at = '2020-01-01';
  update intake_raw.records set deleted = true where id in ('deleted', 'record deleted', 'left in a tombstone', 'tombstone');
  delete from intake.patients where id in ('no row', 'orphan', 'orphan of a record');
  delete from intake_raw.records where id in ('no record', 'orphan');
  update intake.patients set _deleted_at = now(), first_name = null, _hash = null, updated_at = null where id in ('deleted', 'tombstone');
  update intake.patients set _deleted_at = now() where id = 'left in a tombstone';
  delete from intake.patient_tags where patient_id in ('deleted', 'no record', 'record deleted', 'left in a tombstone', 'tombstone');
  update intake.patients set first_name = null where id = 'blank';
  update intake.patients set first_name = 'B', city = 'C' where id = 'value';
  update intake.patient_tags set name = 'two' where patient_id = 'tags';
  delete from intake_raw.records where id = 'record';
  update intake_raw.records set hash = '\\x01' where id in ('newer', 'too new', 'written before', 'not later', 'payload', 'dated');
  update intake.patients set _hash = '\\x01' where id in ('newer', 'too new', 'written before', 'not later', 'payload', 'dated');
  update intake.patients set first_name = 'B' where id in ('newer', 'too new', 'written before', 'not later');
  update intake_raw.records set version = version + interval '1 second' where id in ('newer', 'written before', 'since');
  update intake_raw.records set version = version + interval '1.000001 seconds' where id = 'too new';
  update intake.patients set _loaded_at = '2026-01-01 00:00:00.000001Z' where id in ('newer', 'too new', 'not later', 'since', 'extra');
  update intake.patients set _loaded_at = '2026-01-01' where id = 'written before';
  update intake_raw.records set hash = '\\x02' where id = 'hash';
  update intake.patients set _hash = '\\x01' where id = 'hash';
  update intake_raw.records set payload = payload || '{"other": 1}' where id = 'payload';
  update intake_raw.records set payload = payload || '{"updated_at": "2025-06-02"}' where id = 'dated'`

test('a record is called by what differs, and by what the warehouse has of it, whatever another team has under its id', async () => {
  const all = [...BOTH, ...EXTRA, ...ORPHANS]
  const expected = [...BOTH, 'missing'].map((id) => person(id))
  const tables = await begin(
    patients,
    expected,
    [1, 2].flatMap((team) => all.map((id) => person(id, team))),
  )
  await run(`set timezone = 'UTC'`)
  for (const edit of EDITS.split(';\n')) {
    const where = edit.includes(' where ') ? ' and' : ' where'
    await run(`${edit}${where} team_id = 1`)
  }
  // Nor does another stream of the team say anything by a record with the same id.
  await run(`
    insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
    select 1, 'forms', id, version, observed_at, true, '\\x02', origin from intake_raw.records where team_id = 2`)
  await noteUnknown(session, 'unknown')
  await run(`update intake.patients set first_name = 'B' where id = 'unknown'`)
  const search: SearchScope = { ...scope, tables }
  const found = await findDifferences(session, search, { kind: 'all' })
  const plain = { certain: false, newer: false, payloadOnly: false, isOrphan: false }
  const missing = (id: string, over = {}) => ({ id, kind: 'missing', fields: [], ...plain, ...over })
  const extra = (id: string, over = {}) => ({ id, kind: 'extra', fields: [], ...plain, ...over })
  const other = (id: string, fields: readonly string[], over = {}) => {
    return { id, kind: 'different', fields, ...plain, ...over }
  }
  const certain = true
  const changed = ['_hash', 'first_name', 'intake_raw.records']
  const wanted = [
    missing('deleted'),
    missing('missing'),
    missing('no row', { certain }),
    extra('extra'),
    extra('no record', { certain }),
    extra('record deleted', { certain }),
    extra('left in a tombstone', { certain }),
    extra('since', { newer: true }),
    extra('orphan', { certain, isOrphan: true }),
    extra('orphan of a record'),
    other('blank', ['first_name'], { certain }),
    other('value', ['city', 'first_name'], { certain }),
    other('tags', ['patient_tags'], { certain }),
    other('record', ['intake_raw.records']),
    other('newer', changed, { newer: true }),
    ...['too new', 'written before', 'not later'].map((id) => other(id, changed)),
    other('payload', ['_hash', 'intake_raw.records'], { payloadOnly: true }),
    ...['dated', 'hash'].map((id) => other(id, ['_hash', 'intake_raw.records'])),
  ]
  const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1)
  expect([...found].sort(byId)).toEqual(wanted.sort(byId))
  // Each once, also where only some are asked for.
  expect(found.map(({ id }) => id)).toEqual([...new Set(found.map(({ id }) => id))])
  const ids = ['since', 'equal', 'missing', 'orphan', 'nobody']
  const some = await findDifferences(session, search, { kind: 'ids', ids })
  expect([...some].sort(byId)).toEqual(
    (wanted as Difference[]).filter(({ id }) => ids.includes(id)).sort(byId),
  )
})

test('of a log, an entry that is not stored is newer from the time of the last reading on', async () => {
  const entry = (id: string, created_at: string) =>
    recordEnvelope(
      { id, event: 'e', created_at },
      { teamId: 1, stream: 'webhook_deliveries', observedAt: at(0) },
    )
  const entries = [
    entry('before', '2026-01-01T10:59:59.999999Z'),
    entry('then', '2026-01-01T11:00:00Z'),
    entry('after', '2026-01-01T11:00:00.000001Z'),
  ]
  const stored = [entry('row lost', '2026-01-01T11:30:00Z')]
  const tables = await begin(webhookDeliveries, [...entries, ...stored], stored)
  await run(`delete from intake.webhook_deliveries`)
  const newer = async (loggedUntil: Instant | null) => {
    const found = await findDifferences(session, { ...scope, tables, loggedUntil }, { kind: 'all' })
    return found.flatMap((each) => (each.newer ? each.id : []))
  }
  expect(await newer('2026-01-01T11:00:00.000000Z' as Instant)).toEqual(['after', 'then'])
  expect(await newer(null)).toEqual([])
})

test('a search that fails leaves its session for the next one', async () => {
  const tables = await begin(patients, [person('a')], [])
  const search = { ...scope, tables }
  const broken = { ...search, since: 'soon' as Instant }
  await expect(findDifferences(session, broken, { kind: 'all' })).rejects.toMatchObject({ code: '22007' })
  expect(await findDifferences(session, search, { kind: 'all' })).toHaveLength(1)
  // What an earlier search has found is not found again.
  expect(await findDifferences(session, search, { kind: 'ids', ids: ['b'] })).toEqual([])
})

test('all tables are compared as they were at one moment, whatever changes meanwhile', async () => {
  const tables = await begin(patients, [person('one')], [person('one')])
  await using other = await openSession({ url: database.url, purpose: 'test' })
  const query = session.client.query.bind(session.client) as (...words: unknown[]) => Promise<unknown>
  let statements = 0
  const meanwhile = vi.spyOn(session.client, 'query').mockImplementation((async (...words: unknown[]) => {
    const answer = await query(...words)
    statements += /^begin/.test(String(words[0])) || statements > 0 ? 1 : 0
    // After the first statement of the transaction.
    if (statements === 2) await other.client.query('delete from intake.patient_tags')
    return answer
  }) as never)
  onTestFinished(() => meanwhile.mockRestore())
  expect(await findDifferences(session, { ...scope, tables }, { kind: 'all' })).toEqual([])
  expect(statements).toBeGreaterThan(2)
  expect((await other.client.query('select from intake.patient_tags')).rowCount).toBe(0)
})
