/**
 * Fetches the files of the listed exports into the expected tables.
 *
 * Invariant: a file that cannot be loaded (malformed, or refused by the service) is recorded, and its stored rows count
 * neither as equal nor as different.
 */
import { sql } from 'kysely'
import { canonicalText } from '../../core/canonical.ts'
import type { IntakeError } from '../../core/errors.ts'
import { meaningOf } from '../../extract/conflicts/fetch-by-id.ts'
import { download } from '../../extract/exports/download.ts'
import type { Source } from '../../extract/source.ts'
import { storedExports } from '../../load/exports/export-file.ts'
import { isSentAsJsonString } from '../../load/exports/export-text.ts'
import { matchQuestions } from '../../load/exports/match-questions.ts'
import { spool, spooledChunk } from '../../load/exports/spool.ts'
import type { Session } from '../../warehouse/connect.ts'
import { expectFile } from '../expected/files.ts'
import type { ExpectedTables } from '../expected/tables.ts'

/** Exports whose file could not be fetched or read. */
export const UNREAD_FILES = sql.table('pg_temp.unread_files')

export async function expectFiles(source: Source, session: Session, tables: ExpectedTables): Promise<void> {
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
