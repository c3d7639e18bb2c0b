/**
 * Rebuilds the files of a team's exports from their bytes in intake_raw.
 *
 * Invariant: an export's columns, rows and cells are replaced together, in one transaction, and only if one of them
 * differs; those without a loaded file are removed.
 */
import { sql } from 'kysely'
import { canonicalText } from '../core/canonical.ts'
import type { Problem } from '../core/envelope.ts'
import { MalformedFile, matchQuestions } from '../load/exports/file-problems.ts'
import type { Loaders } from '../load/merge/loaders.ts'
import { assertOwned, type TakenSlice } from '../load/slice.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { expectFile, loadedFile } from './expected-from-raw.ts'
import { clearFound, compareTable, createExpected, type ExpectedTables, ofTeam } from './expected-tables.ts'

export interface Replaying {
  /** For reading; the loaders write. */
  readonly session: Session
  readonly loaders: Loaders
  readonly teamId: number
  readonly stream: Stream
  /** See `RewritePortion`. */
  readonly taken?: TakenSlice | undefined
  readonly signal: AbortSignal
  /** Called with the number of records read so far. */
  readonly onProgress: (records: number) => void
}

export interface ReplayedFiles {
  readonly rewritten: number
  /** Files that can no longer be read; what was loaded of them stays. */
  readonly refused: number
}

export async function replayFiles(
  { session, loaders, teamId, taken, signal }: Replaying,
  tables: ExpectedTables,
): Promise<ReplayedFiles> {
  let rewritten = 0
  let refused = 0
  for (const exportId of await storedExportIds(session, teamId)) {
    signal.throwIfAborted()
    await loaders.run(async (loader) => {
      try {
        if (await replayFile(loader, { teamId, taken }, exportId, tables)) rewritten += 1
      } catch (error) {
        if (!(error instanceof MalformedFile)) throw error
        refused += 1
      }
    })
  }
  return { rewritten, refused }
}

/** Exports that have a file, or rows of one. */
async function storedExportIds({ db }: Session, teamId: number): Promise<readonly string[]> {
  const tables = [
    'intake_raw.export_files',
    'intake.export_columns',
    'intake.export_rows',
    'intake.export_cells',
  ]
  // Skips from one id to the next: each may have very many cells.
  const walks = tables.map((name) => {
    const next = (after: unknown) => sql`(
      select min(export_id) as id from ${sql.table(name)} where team_id = ${teamId} and ${after}
    )`
    return sql`(
      with recursive walk as (
        ${next(sql`true`)}
        union all
        select (select min(export_id) from ${sql.table(name)} where team_id = ${teamId} and export_id > walk.id)
        from walk where walk.id is not null
      ) select id from walk where id is not null
    )`
  })
  const { rows } = await sql<{ id: string }>`
    select distinct id from (${sql.join(walks, sql` union all `)}) stored order by id`.execute(db)
  return rows.map(({ id }) => id)
}

/** True when the export's rows were written anew. */
async function replayFile(
  session: Session,
  { teamId, taken }: Pick<Replaying, 'teamId' | 'taken'>,
  exportId: string,
  tables: ExpectedTables,
): Promise<boolean> {
  const { client, db } = session
  const { files } = tables
  await createExpected(session, files, 'delete')
  await clearFound(session)
  await client.query('begin')
  try {
    if (taken !== undefined) await assertOwned(db, taken)
    const file = await loadedFile(session, teamId, exportId)
    if (file !== null)
      await noteProblems(session, teamId, exportId, await expectFile(session, teamId, tables, file))
    const stored = ofTeam(teamId)
    for (const table of files) {
      const columns = table.columns.filter((name) => name !== 'team_id' && name !== 'question_id')
      await compareTable(session, { table, columns, label: '', stored }, { kind: 'ids', ids: [exportId] })
    }
    const { rows: found } = await sql<{ any: boolean }>`
      select exists (select from pg_temp.differing) as any`.execute(db)
    const differs = found[0]?.any === true
    if (differs) {
      for (const { name, expected, columns } of files) {
        const cells = sql.join(columns.map((column) => sql.ref(column)))
        await sql`delete from ${sql.table(name)} where team_id = ${teamId} and export_id = ${exportId}`.execute(
          db,
        )
        await sql`insert into ${sql.table(name)} (${cells}) select ${cells} from ${sql.table(expected)}`.execute(
          db,
        )
      }
      await matchQuestions(db, teamId, exportId)
    }
    await client.query('commit')
    return differs
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

async function noteProblems(
  { db }: Session,
  teamId: number,
  exportId: string,
  problems: readonly Problem[],
): Promise<void> {
  const listed = problems.length === 0 ? null : canonicalText(problems)
  await sql`
    update intake_raw.export_files set problems = ${listed}::jsonb
    where team_id = ${teamId} and export_id = ${exportId} and is_loaded
      and problems is distinct from ${listed}::jsonb`.execute(db)
}
