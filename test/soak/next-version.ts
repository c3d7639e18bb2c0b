/**
 * The next version of the project, for an upgrade in the middle of the year: the same code, one more migration, and views
 * whose text changed, so that all are made again.
 */
import { appendFileSync, cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

/** Writes it into an empty folder. */
export function makeNextVersion(folder: string): void {
  for (const name of ['src', 'sql', 'package.json', 'test/soak/child.ts']) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    cpSync(join(PROJECT, name), join(folder, name), { recursive: true })
  }
  symlinkSync(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'sql/migrations/9000_next_version.sql'), MIGRATION)
  const views = join(folder, 'sql/views')
  for (const name of readdirSync(views)) appendFileSync(join(views, name), '\n-- as of the next version\n')
}

/** Rewrites the largest table, as a migration may: the default is volatile, and always 0. */
const MIGRATION = `
alter table intake_raw.records add column next_version smallint not null default (random() * 0)::smallint;
comment on column intake_raw.records.next_version is 'What the next version needs of a record.';
create index records_next_version on intake_raw.records (team_id, next_version);
`
