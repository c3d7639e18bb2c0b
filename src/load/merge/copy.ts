/**
 * The text format of COPY, and sending it. Invariant: one line a row, one cell a tab; cells hold nothing that
 * Postgres cannot store (see core/storable), so encoding cannot fail.
 */
import { finished } from 'node:stream/promises'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import type { Cell } from '../../streams/parts/cell.ts'

const SPECIAL = /[\\\n\r\t]/

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** One cell as COPY text takes it. */
export function copyCell(cell: Cell): string {
  if (cell === null) return '\\N'
  return SPECIAL.test(cell) ? cell.replace(/[\\\n\r\t]/g, (character) => ESCAPES[character]!) : cell
}

/** The cells of a row, joined; no line end. */
export function copyCells(cells: readonly Cell[]): string {
  let line = ''
  for (let at = 0; at < cells.length; at++) line += (at === 0 ? '' : '\t') + copyCell(cells[at]!)
  return line
}

/** Runs `statement` (`copy … from stdin`) and sends it `lines`; without lines there is nothing to run. */
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

/** A statement of ours that writes straight into a table of `intake`: the table and the list of its columns. */
const INTO_INTAKE = /^copy ("?intake"?\."?\w+"?)\s+\(([^)]*)\) from stdin$/

const bound = new WeakMap<pg.Client, boolean>()

/**
 * True for a login that has intake_loader without owning the tables. Policies bind it, which let it write every row;
 * but COPY knows no policies and refuses, so its lines pass through a temporary table.
 */
async function isBound(client: pg.Client): Promise<boolean> {
  const known = bound.get(client)
  if (known !== undefined) return known
  const { rows } = await client.query<{ bound: boolean }>(
    `select coalesce(row_security_active(to_regclass('intake.patients')), false) as bound`,
  )
  bound.set(client, rows[0]!.bound)
  return rows[0]!.bound
}
