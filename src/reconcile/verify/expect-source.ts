/**
 * Fills the expected tables from the source: reads it as a backfill does, and maps records as a load does.
 *
 *     list ─► envelopes ─► lines ─► expected tables          files of exports ─► expected tables
 *                                                            forgotten by a log ─► expected tables
 *
 * Invariant: only temporary tables are written, and memory does not grow with the source. For a record that was listed
 * several times, the greatest state counts. Records that a load would dead-letter or skip are not expected, and are not
 * reported as extra either.
 */
import { sql } from 'kysely'
import PQueue from 'p-queue'
import { canonicalText } from '../../core/canonical.ts'
import type { IntakeError } from '../../core/errors.ts'
import { meaningOf } from '../../extract/conflicts/fetch-by-id.ts'
import { download } from '../../extract/reading/read-export-file.ts'
import { scanUntilStable } from '../../extract/reading/read-list.ts'
import { EVERYTHING } from '../../extract/reading/window.ts'
import type { ScanReport } from '../../extract/scan/scan.ts'
import type { Source } from '../../extract/source.ts'
import { storedExports } from '../../load/exports/export-file.ts'
import { isSentAsJsonString } from '../../load/exports/export-text.ts'
import { matchQuestions } from '../../load/exports/file-problems.ts'
import { spool, spooledChunk } from '../../load/exports/spool.ts'
import type { Batch, LoadResult } from '../../load/merge/load.ts'
import type { Loaders } from '../../load/merge/loaders.ts'
import { MIN_ENTRY_TIME } from '../../load/merge/skip-unchanged.ts'
import type { Session } from '../../warehouse/connect.ts'
import { expectFile } from '../expected-from-raw.ts'
import type { ExpectedTables } from '../expected-tables.ts'
import { beginExpected, expectForgotten, expectLines, noteUnknown } from './expect-raw.ts'

const NOTHING_LOADED: LoadResult = {
  changed: 0,
  deleted: 0,
  erased: 0,
  deadLetters: 0,
  problems: 0,
  conflicts: [],
}

/** The report of the scan, and the number of log entries that the list no longer has. */
export interface SourceExpected extends ScanReport {
  readonly forgotten: number
}

/** Fills the expected tables of `session` anew; `scanning` is for the scan's own temporary tables. */
export async function expectSource(
  source: Source,
  session: Session,
  scanning: Session,
  tables: ExpectedTables,
): Promise<SourceExpected> {
  await beginExpected(session, tables)
  const load = async (own: Session, { lines, deadLetters }: Batch): Promise<LoadResult> => {
    for (const { recordId } of deadLetters) if (recordId !== null) await noteUnknown(own, recordId)
    await expectLines(own, tables, lines)
    return NOTHING_LOADED
  }
  const reading: Source = { ...source, loaders: onlySession(session), load }
  const options = { allowMassDelete: false, dry: true, migrated: false, window: EVERYTHING }
  const { last } = await scanUntilStable(reading, scanning, options)
  await keepGreatest(session, tables)
  if (tables.files.length > 0) await expectFiles(source, session, tables)
  const isLog = source.stream.entryAt !== undefined
  if (isLog) await forgetExpired(session, tables, source.taken.teamId)
  const forgotten = isLog ? await expectForgotten(session, tables, source.taken.teamId) : 0
  return { ...last, forgotten }
}

/** Removes the entries that the service lists and that retention removed here. */
async function forgetExpired(
  { db }: Session,
  { stream, root, records }: ExpectedTables,
  teamId: number,
): Promise<void> {
  const expired = sql`
    select expected.id from ${sql.table(root.expected)} expected
    join intake_ops.pruned_logs pruned on pruned.team_id = ${teamId} and pruned.stream = ${stream.name}
    where expected._version < pruned.before and expected._version > ${sql.lit(MIN_ENTRY_TIME)}`
  for (const { expected } of [records, root])
    await sql`delete from ${sql.table(expected)} where id in (${expired})`.execute(db)
}

/** Removes these records from the expected tables. One that is unknown never differs, so it is not among them. */
export async function forget(
  session: Session,
  tables: ExpectedTables,
  ids: readonly string[],
): Promise<void> {
  for (const { expected, parent } of [tables.root, ...tables.children, tables.records]) {
    await sql`delete from ${sql.table(expected)} where ${sql.ref(parent)} = any(${ids}::text[])`.execute(
      session.db,
    )
  }
}

/** Rows of one batch have one `_since`, the time of its transaction: a record that was listed again has several. */
async function keepGreatest({ db }: Session, { root, children, records }: ExpectedTables): Promise<void> {
  for (const { expected } of [root, records]) {
    await sql`create index if not exists ${sql.ref(`${expected.split('.')[1]}_by_id`)} on ${sql.table(expected)} (id)`.execute(
      db,
    )
  }
  await sql`create temporary table if not exists repeated (id text not null, since timestamptz not null)`.execute(
    db,
  )
  await sql`truncate pg_temp.repeated`.execute(db)
  await sql`
    insert into pg_temp.repeated
    select distinct on (id) id, _since from ${sql.table(root.expected)}
    where id in (select id from ${sql.table(root.expected)} group by id having count(*) > 1)
    order by id, _version desc, _since desc`.execute(db)
  for (const { expected, parent } of [root, records, ...children]) {
    await sql`
      delete from ${sql.table(expected)} own using pg_temp.repeated
      where own.${sql.ref(parent)} = repeated.id and own._since <> repeated.since`.execute(db)
  }
}

/** One session as loaders: work runs in sequence. */
function onlySession(session: Session): Loaders {
  const queue = new PQueue({ concurrency: 1 })
  return { run: (work) => queue.add(() => work(session)), ready: () => queue.onSizeLessThan(1) }
}

/** Exports whose file could not be fetched or read. */
export const UNREAD_FILES = sql.table('pg_temp.unread_files')

/**
 * Fetches the files of the listed exports into the expected tables. A file that cannot be loaded (malformed, or refused by
 * the service) is recorded, and its stored rows count neither as equal nor as different.
 */
async function expectFiles(source: Source, session: Session, tables: ExpectedTables): Promise<void> {
  const { db, client } = session
  const { teamId } = source.taken
  await sql`create temporary table if not exists ${UNREAD_FILES} (id text not null)`.execute(db)
  await sql`truncate ${UNREAD_FILES}`.execute(db)
  const { rows } = await sql<{
    id: string
  }>`select id from ${sql.table(tables.root.expected)} order by id`.execute(db)
  const ids = rows.map(({ id }) => id)
  const stored = await storedExports(db, teamId, ids)
  for (const exportId of ids) {
    source.signal.throwIfAborted()
    try {
      const file = await download(source, exportId, stored.get(exportId)?.hash ?? null, (pieces) =>
        spool(session, pieces),
      )
      await client.query('begin')
      const { spooled, contentType } = file
      const problems = await expectFile(session, teamId, tables, {
        exportId,
        timezone: source.timezone,
        isJsonString: isSentAsJsonString(contentType, spooled.first[0] ?? Buffer.alloc(0)),
        chunks: spooled.chunks,
        chunk: (number) => spooledChunk(session, spooled, number),
      })
      if (problems.length > 0) {
        await sql`
          update ${sql.table(tables.root.expected)}
          set _problems = coalesce(_problems, '[]') || ${canonicalText(problems)}::jsonb where id = ${exportId}`.execute(
          db,
        )
      }
      await client.query('commit')
    } catch (error) {
      await client.query('rollback').catch(() => {})
      const { failedFetches } = source
      if (meaningOf(error, failedFetches, 'file') === 'later')
        failedFetches.later.set(exportId, (error as IntakeError).message)
      await sql`insert into ${UNREAD_FILES} (id) values (${exportId})`.execute(db)
    }
  }
  const [columns] = tables.files
  await matchQuestions(db, teamId, null, { columns: columns!.expected, entries: tables.root.expected })
}
