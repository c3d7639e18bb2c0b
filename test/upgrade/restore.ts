/** The warehouse that version 0.1 left, in an empty database. */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import pg from 'pg'

const FIXTURE = new URL('../fixtures/warehouse-0.1.sql.gz', import.meta.url)

/** As a dump is restored: the roles of the server first. */
export async function restore(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, application_name: 'restore' })
  await client.connect()
  try {
    for (const role of ['intake_loader', 'intake_analyst', 'intake_clinical']) {
      await client.query(`do $$ begin create role ${role} nologin;
        exception when duplicate_object or unique_violation then null; end $$`)
    }
    await client.query(gunzipSync(readFileSync(FIXTURE)).toString('utf8'))
  } finally {
    await client.end()
  }
}
