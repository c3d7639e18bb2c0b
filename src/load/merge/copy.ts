/** Sends lines in the text format of COPY (normalize/copy-text). */
import { finished } from 'node:stream/promises'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { ALL_STREAMS } from '../../streams/catalogue.ts'

/** Runs `statement` (`copy … from stdin`) with `lines`; does nothing without lines. */
export async function sendCopy(client: pg.Client, statement: string, lines: Buffer): Promise<void> {
  if (lines.length === 0) return
  const [, table, columns] = INTO_INTAKE.exec(statement) ?? []
  if (table === undefined || columns === undefined || !(await isBound(client))) {
    return await send(client, statement, lines)
  }
  const passing = `pg_temp.passing_${table.replace(/\W+/g, '_')}`
  await client.query(
    `create temporary table if not exists ${passing.slice(8)} (like ${table} including defaults)`,
  )
  await send(client, `copy ${passing} (${columns}) from stdin`, lines)
  await client.query(
    `insert into ${table} (${columns}) select ${columns} from ${passing}; truncate ${passing}`,
  )
}

async function send(client: pg.Client, statement: string, lines: Buffer): Promise<void> {
  const stream = client.query(copyFrom(statement))
  stream.end(lines)
  await finished(stream)
}

/** A statement that copies into a table of `intake`: its table and columns. */
const INTO_INTAKE = /^copy ("?intake"?\."?\w+"?)\s+\(([^)]*)\) from stdin$/

const bound = new WeakMap<pg.Client, boolean>()

/**
 * True for a login that has intake_loader without owning the tables. Row-level security applies to it, and COPY refuses
 * such tables even if the policies allow every row, so its lines pass through a temporary table.
 */
async function isBound(client: pg.Client): Promise<boolean> {
  const known = bound.get(client)
  if (known !== undefined) return known
  const { rows } = await client.query<{ bound: boolean }>(
    `select coalesce(row_security_active(to_regclass($1)), false) as bound`,
    [`intake.${ALL_STREAMS[0]!.table}`],
  )
  bound.set(client, rows[0]!.bound)
  return rows[0]!.bound
}
