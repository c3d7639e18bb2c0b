/** Exports that are loaded as files, and the files in which Postgres keeps tables. */
import { loadFile } from '../../../src/load/exports/load-file.ts'
import { spool } from '../../../src/load/exports/spool.ts'
import { takeSlice } from '../../../src/load/slice.ts'
import { noonPlus, type Scene } from '../../ingest/drain/scene.ts'

const HEAD = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,q\n'
/** Loads a file with these rows as the export `e`. */
export async function loadExport(scene: Scene, rows: readonly string[]): Promise<void> {
  const taken = await takeSlice(scene.session.db, { teamId: scene.teamId, stream: 'exports', slice: '' }, '1')
  async function* pieces() {
    yield Buffer.from(HEAD + rows.join('\n'))
  }
  const { last: _, ...spooled } = await spool(scene.session, pieces())
  await loadFile(scene.session, taken, {
    ...{ ...spooled, exportId: 'e', isJsonString: false, apiVersion: 'v2.1', timezone: 'UTC' },
    ...{ observedAt: noonPlus(1), origin: 'test' },
  })
}

/** Files of the database that contain one of the texts; temporary tables belong to their sessions. */
export async function filesHolding(scene: Scene, texts: readonly string[]): Promise<readonly string[]> {
  await scene.session.client.query('checkpoint')
  const rows = await scene.rows<{ name: string }>(
    `with own as (select 'base/' || oid as folder from pg_database where datname = current_database()),
       files as (select folder || '/' || pg_ls_dir(folder) as path from own)
     select distinct split_part(path, '/', 3) as name from files
     cross join lateral (select pg_read_binary_file(path, 0, coalesce((pg_stat_file(path, true)).size, 0), true) as bytes offset 0) as content
     where path !~ '/t[0-9]' and exists (
       select from unnest($1::text[]) as given (text) where position(convert_to(text, 'UTF8') in bytes) > 0)
     order by 1`,
    [texts],
  )
  return rows.map(({ name }) => name)
}
