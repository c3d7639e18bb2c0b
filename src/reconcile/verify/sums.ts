/**
 * One content hash for all rows of a stream, computed in the same way for expected and stored rows.
 *
 * Invariant: it depends only on the rows and their cells, not on order or time of writing; it adds up 128 bits of each
 * row, so that equal rows count separately.
 */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import type { Session } from '../../warehouse/connect.ts'
import type { Comparison } from '../expected/compare.ts'
import { comparisonsOf, type SearchScope } from './find.ts'

export interface Sums {
  /** Records. */
  readonly source: number
  readonly warehouse: number
  /** 32 hex digits. */
  readonly sourceHash: string
  readonly warehouseHash: string
}

interface TableSum {
  readonly rows: string
  readonly low: string
  readonly high: string
}

export async function computeSums(
  { client, db }: Session,
  scope: Pick<SearchScope, 'teamId' | 'tables'>,
): Promise<Sums> {
  const comparisons = comparisonsOf(scope)
  await client.query('begin isolation level repeatable read')
  try {
    const expected: TableSum[] = []
    const stored: TableSum[] = []
    for (const comparison of comparisons) {
      const { table } = comparison
      expected.push(await sumOf(db, comparison, sql.table(table.expected), sql`true`))
      stored.push(await sumOf(db, comparison, sql.table(table.name), comparison.stored))
    }
    const sums = {
      source: Number(expected[0]!.rows),
      warehouse: await countLive(db, scope),
      sourceHash: hashOf(expected),
      warehouseHash: hashOf(stored),
    }
    await client.query('commit')
    return sums
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

async function countLive(
  db: Session['db'],
  { teamId, tables }: Pick<SearchScope, 'teamId' | 'tables'>,
): Promise<number> {
  const { rows } = await sql<{ live: string }>`
    select count(*) as live from ${sql.table(tables.root.name)}
    where team_id = ${teamId} and _deleted_at is null`.execute(db)
  return Number(rows[0]!.live)
}

async function sumOf(
  db: Session['db'],
  { columns }: Comparison,
  table: RawBuilder<unknown>,
  counted: RawBuilder<unknown>,
): Promise<TableSum> {
  const row = sql`row(${sql.join(columns.map((name) => sql.ref(`stored.${name}`)))})`
  const { rows } = await sql<TableSum>`
    select count(*) as rows, coalesce(sum(hash_record_extended(${row}, 0)), 0)::text as low,
      coalesce(sum(hash_record_extended(${row}, 1)), 0)::text as high
    from ${table} stored where ${counted}`.execute(db)
  return rows[0]!
}

function hashOf(sums: readonly TableSum[]): string {
  const hash = createHash('sha256')
  for (const { rows, low, high } of sums) hash.update(`${rows} ${low} ${high}\n`)
  return hash.digest('hex').slice(0, 32)
}
