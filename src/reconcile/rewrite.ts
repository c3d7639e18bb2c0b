/**
 * Compares a portion of intake_raw with the tables of `intake` and rewrites the differences, in one transaction.
 *
 *     lines ─► expected tables ─► what differs ─► locked and looked at again ─► rows and children replaced
 *
 * Invariant: a reader sees each record before or after, never a part of it, and never waits. A record that changed since it
 * was read is left alone; locks are taken in the order in which a load takes them. A row without a record is removed.
 * Equal rows are not written.
 */
import { type RawBuilder, sql } from 'kysely'
import { forgetAnswersRead } from '../analytics/wide/wide-questions.ts'
import type { Envelope } from '../core/envelope.ts'
import { sendCopy } from '../load/merge/write-batch.ts'
import { assertOwned, type TakenSlice } from '../load/slice.ts'
import { linesOf } from '../normalize/lines.ts'
import type { Session } from '../warehouse/connect.ts'
import {
  clearFound,
  compareTable,
  copyInto,
  createExpected,
  type ExpectedTable,
  type ExpectedTables,
  ofTeam,
  type Scope,
} from './expected-tables.ts'

export interface RewriteCounts {
  /** Records whose rows were rewritten. */
  readonly rewritten: number
  /** Removed rows without a record. */
  readonly removed: number
}

export interface RewritePortion {
  readonly teamId: number
  readonly tables: ExpectedTables
  /** The records of intake_raw in `scope`. */
  readonly envelopes: readonly Envelope[]
  readonly scope: Scope
  /** Nothing is rewritten unless the slice is still ours; left out where a lock guards the stream. */
  readonly taken?: TakenSlice | undefined
}

const FOUND = sql.table('pg_temp.differing')

/** Differing records to rewrite: those that did not change meanwhile. */
const AGREED = sql.table('pg_temp.rewriting')

export async function rewritePart(session: Session, part: RewritePortion): Promise<RewriteCounts> {
  const { client } = session
  const { root, children } = part.tables
  await createExpected(session, [root, ...children], 'delete')
  await clearFound(session)
  await client.query('begin')
  try {
    if (part.taken !== undefined) await assertOwned(session.db, part.taken)
    await expectPart(session, part)
    const columns = root.columns.filter((name) => name !== 'team_id')
    const stored = ofTeam(part.teamId)
    await compareTable(session, { table: root, columns, label: '', stored }, part.scope)
    for (const table of children) {
      await compareTable(session, { table, columns: table.columns.slice(1), label: '', stored }, part.scope)
    }
    const counts = await rewriteFound(session, part)
    await client.query('commit')
    return counts
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

async function expectPart(session: Session, { teamId, tables, envelopes }: RewritePortion): Promise<void> {
  const { client, db } = session
  const { stream, root, children, files } = tables
  const lines = linesOf(stream, envelopes)
  await sendCopy(client, copyInto(session, root), lines.root)
  for (const [index, table] of children.entries()) {
    await sendCopy(client, copyInto(session, table), lines.children[index]!)
  }
  // The row of an export has the problems of its list entry, then those of its file.
  if (files.length > 0) {
    await sql`
      update ${sql.table(root.expected)} entry set _problems = coalesce(entry._problems, '[]') || loaded.problems
      from intake_raw.export_files loaded
      where loaded.team_id = ${teamId} and loaded.export_id = entry.id and loaded.is_loaded
        and loaded.problems is not null and entry._deleted_at is null`.execute(db)
  }
}

async function rewriteFound(session: Session, { teamId, tables }: RewritePortion): Promise<RewriteCounts> {
  const { db } = session
  const { stream, root, children } = tables
  const { rows: found } = await sql<{ any: boolean }>`select exists (select from ${FOUND}) as any`.execute(db)
  if (found[0]?.any !== true) return { rewritten: 0, removed: 0 }
  const raw = sql`raw.team_id = ${teamId} and raw.stream = ${stream.name} and raw.id = differing.id`
  // One lookup per key, in the order of keys.
  const differing = sql`(select distinct id from ${FOUND} order by id) differing`
  await sql`
    select count(*) from (
      select from ${differing}
      cross join lateral (select from intake_raw.records raw where ${raw} for share) locked
    ) current`.execute(db)
  await sql`
    select count(*) from (
      select from ${differing}
      cross join lateral (
        select from ${sql.table(root.name)} stored where stored.team_id = ${teamId} and stored.id = differing.id for update
      ) locked
    ) current`.execute(db)
  // intake_raw must still have the expected state, and no record of ids that are not expected.
  await sql`create temporary table if not exists ${AGREED} (id text primary key) on commit delete rows`.execute(
    db,
  )
  await sql`
    insert into ${AGREED}
    select differing.id from (select distinct id from ${FOUND}) differing
    left join ${sql.table(root.expected)} expected on expected.id = differing.id
    left join lateral (
      select id, version, deleted, origin, hash from intake_raw.records raw where ${raw} offset 0
    ) raw on true
    where case when expected.id is null then raw.id is null
      else raw.version = expected._version and raw.deleted = (expected._deleted_at is not null)
        and raw.origin = expected._origin and raw.hash = coalesce(expected._hash, '') end`.execute(db)
  for (const table of children) await replaceChildren(session, teamId, table)
  const counts = await replaceRoots(session, teamId, root)
  // Last, because every portion waits for this row.
  if (counts.rewritten > 0) await forgetAnswersRead(db, stream)
  return counts
}

async function replaceChildren(
  { db }: Session,
  teamId: number,
  { name, expected, parent, columns }: ExpectedTable,
): Promise<void> {
  await deleteByKey(db, name, parent, teamId, sql`true`)
  await sql`
    insert into ${sql.table(name)} (${refs(columns)})
    select ${refs(columns)} from ${sql.table(expected)} where ${sql.ref(parent)} in (select id from ${AGREED})`.execute(
    db,
  )
}

async function replaceRoots(
  { db }: Session,
  teamId: number,
  { name, expected, columns }: ExpectedTable,
): Promise<RewriteCounts> {
  const own = sql`id in (select id from ${AGREED})`
  const isGone = sql`not exists (select from ${sql.table(expected)} expected where expected.id = rewriting.id)`
  await deleteByKey(db, name, 'id', teamId, isGone)
  const removed = await sql<{ ids: string }>`
    select count(*) as ids from ${AGREED} rewriting where ${isGone}`.execute(db)
  const assignments = columns.slice(2).map((column) => sql`${sql.ref(column)} = excluded.${sql.ref(column)}`)
  const rewritten = await sql`
    insert into ${sql.table(name)} (${refs(columns)})
    select ${refs(columns)} from ${sql.table(expected)} where ${own} order by team_id, id
    on conflict (team_id, id) do update set ${sql.join(assignments)}, _loaded_at = now()`.execute(db)
  return { rewritten: Number(rewritten.numAffectedRows ?? 0), removed: Number(removed.rows[0]?.ids ?? 0) }
}

/** Deletes the rows of those ids of `rewriting`. They are in an array: the planner expects few, and so looks them up. */
async function deleteByKey(
  db: Session['db'],
  name: string,
  column: string,
  teamId: number,
  which: RawBuilder<unknown>,
): Promise<void> {
  await sql`
    delete from ${sql.table(name)} stored
    using unnest(array(select id from ${AGREED} rewriting where ${which} order by id)) as rewriting (id)
    where stored.team_id = ${teamId} and stored.${sql.ref(column)} = rewriting.id`.execute(db)
}

function refs(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((column) => sql.ref(column)))
}
