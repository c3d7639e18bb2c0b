/**
 * Adds the lines of a batch to the expected tables, as a load would write them.
 *
 * Invariant: a batch that Postgres refuses is halved until the refused record is found; that record is unknown, and the
 * others are expected.
 */
import { sql } from 'kysely'
import { withoutErased } from '../../load/erased-lines.ts'
import { isRefusalOfData } from '../../load/load.ts'
import { sendCopy } from '../../load/merge/copy.ts'
import type { BatchLines } from '../../normalize/lines.ts'
import { onlyRecord, splitLines } from '../../normalize/split-lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import { copyInto, type ExpectedTables } from '../expected/tables.ts'

/** Ids of listed records that cannot be loaded. */
export const UNKNOWN = sql.table('pg_temp.unknown')

/** Adds the lines of a batch; a record that Postgres refuses becomes unknown. */
export async function expectLines(
  session: Session,
  tables: ExpectedTables,
  lines: BatchLines,
  // Payloads from intake_raw are not compared with intake_raw.
  { payloads } = { payloads: tables.stream.list !== null },
): Promise<void> {
  if (lines.count === 0) return
  const { client } = session
  await client.query('begin')
  try {
    const kept = await withoutErased(session, tables.stream, lines)
    if (payloads) await sendCopy(client, copyInto(session, tables.records), kept.records)
    await sendCopy(client, copyInto(session, tables.root), kept.root)
    for (const [at, table] of tables.children.entries()) {
      await sendCopy(client, copyInto(session, table), kept.children[at]!)
    }
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    if (!isRefusalOfData((error as { code?: string }).code)) throw error
    if (lines.count === 1) return await noteUnknown(session, onlyRecord(lines).id)
    for (const part of splitLines(lines)) await expectLines(session, tables, part, { payloads })
  }
}

export async function noteUnknown({ db }: Session, id: string): Promise<void> {
  await sql`insert into ${UNKNOWN} (id) values (${id})`.execute(db)
}
