/**
 * A consumer of the change feed: prints each change once, one JSON document a line, and stores how far it came:
 * `tsx follow-changes.ts PLACE.json`. Run it as often as you like; after a crash it goes on from its last place.
 *
 * A change of a record moves it to a greater `seq`, and no change ever appears below one that was visible: the greatest
 * `seq` that was read is all that a consumer has to know.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import pg from 'pg'

const [place] = process.argv.slice(2)
const { DATABASE_URL: connectionString } = process.env
if (place === undefined || !connectionString) {
  process.stderr.write('usage: follow-changes.ts PLACE.json, with DATABASE_URL\n')
  process.exit(2)
}

interface Change {
  /** A bigint, which JavaScript numbers do not carry: text. */
  readonly seq: string
  readonly stream: string
  readonly id: string
  readonly operation: 'upsert' | 'delete'
}

const PORTION = 1_000
let seq = existsSync(place) ? (JSON.parse(readFileSync(place, 'utf8')) as { seq: string }).seq : '0'
const client = new pg.Client({ connectionString, application_name: 'follow-changes' })
await client.connect()
try {
  for (;;) {
    // "With ties": the rows of one number are read together.
    const { rows } = await client.query<Change>(
      `select seq, stream, id, operation from intake_analytics.changes
       where seq > $1 order by seq fetch first ${PORTION} rows with ties`,
      [seq],
    )
    for (const { stream, id, operation } of rows)
      process.stdout.write(`${JSON.stringify({ stream, id, operation })}\n`)
    const last = rows.at(-1)
    if (last === undefined) break
    seq = last.seq
    // Renamed into place: a crash leaves the place before or this one, never half a file.
    writeFileSync(`${place}.new`, JSON.stringify({ seq }))
    renameSync(`${place}.new`, place)
  }
} finally {
  await client.end()
}
