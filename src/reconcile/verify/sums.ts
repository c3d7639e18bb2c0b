/**
 * Counts and hashes of both sides of a stream: what a fresh load would write, and what is stored.
 *
 * Invariant: computed in the same way for both, in one snapshot. Equal row hashes mean equal rows.
 */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import type { Session } from '../../warehouse/connect.ts'
import type { Comparison } from '../expected-tables.ts'
import { comparisonsOf, type SearchScope } from './find.ts'

export interface StreamSums {
  /** Records. */
  readonly source: number
  readonly warehouse: number
  /** Of all rows and cells, in no order: 32 hex digits. */
  readonly sourceHash: string
  readonly warehouseHash: string
  /** Of the content hashes of the records, in the order of their ids: 64 hex digits. */
  readonly sourceContentHash: string
  readonly warehouseContentHash: string
}

interface TableSum {
  readonly rows: string
  readonly low: string
  readonly high: string
}

/**
 * Counts, and one content hash for all rows of a stream, computed in the same way for expected and stored rows: each side
 * in its own session, at the same time.
 *
 * Invariant: a hash depends only on the rows and their cells, not on order or time of writing; it adds up 128 bits of
 * each row, so that equal rows count separately. Each side is read in one snapshot; nobody else writes the expected rows.
 */
export async function computeSums(
  { session, scanning }: { readonly session: Session; readonly scanning: Session },
  scope: Pick<SearchScope, 'teamId' | 'tables'>,
): Promise<StreamSums> {
  const comparisons = comparisonsOf(scope)
  const done = await Promise.allSettled([
    inSnapshot(session, (db) =>
      sideOf(
        db,
        comparisons.map((each) => ({ ...each, of: sql.table(each.table.expected), counted: sql`true` })),
      ),
    ),
    inSnapshot(scanning, async (db) => {
      const sides = comparisons.map((each) => ({
        ...each,
        of: sql.table(each.table.name),
        counted: each.stored,
      }))
      return { ...(await sideOf(db, sides)), live: await countLive(db, scope) }
    }),
  ])
  // Only now is neither session in use.
  for (const side of done) if (side.status === 'rejected') throw side.reason
  const [expected, stored] = done.map((side) => side.status === 'fulfilled' && side.value) as [Side, Side]
  return {
    source: expected.records,
    warehouse: (stored as Side & { live: number }).live,
    sourceHash: expected.hash,
    warehouseHash: stored.hash,
    sourceContentHash: expected.contentHash,
    warehouseContentHash: stored.contentHash,
  }
}

interface Side {
  readonly records: number
  readonly hash: string
  readonly contentHash: string
}

interface Counted extends Comparison {
  readonly of: RawBuilder<unknown>
  readonly counted: RawBuilder<unknown>
}

async function sideOf(db: Session['db'], comparisons: readonly Counted[]): Promise<Side> {
  const sums: TableSum[] = []
  for (const { of, counted, ...comparison } of comparisons)
    sums.push(await sumOf(db, comparison, of, counted))
  const root = comparisons[0]!
  const content = await contentHash(db, root.of, root.counted)
  return { records: Number(sums[0]!.rows), hash: hashOf(sums), contentHash: content }
}

async function inSnapshot<Result>(
  { client, db }: Session,
  work: (db: Session['db']) => Promise<Result>,
): Promise<Result> {
  await client.query('begin isolation level repeatable read')
  try {
    const result = await work(db)
    await client.query('commit')
    return result
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

/** So that one value of Postgres holds the hashes of any number of records. */
const BLOCK = 4_096

/**
 * The SHA-256 of the content hashes (`_hash`) of a root table's rows, in the order of the bytes of their ids: the hashes of
 * each 4,096 of them are hashed, then these hashes.
 */
async function contentHash(
  db: Session['db'],
  table: RawBuilder<unknown>,
  counted: RawBuilder<unknown>,
): Promise<string> {
  const { rows } = await sql<{ hash: string }>`
    with ordered as (
      select id, _hash, (row_number() over (order by id collate "C") - 1) / ${sql.lit(BLOCK)} as block
      from ${table} stored where ${counted}
    ), blocks as (
      select block, sha256(string_agg(coalesce(_hash, ''), ''::bytea order by id collate "C")) as hash
      from ordered group by block
    )
    select encode(sha256(coalesce(string_agg(hash, ''::bytea order by block), '')), 'hex') as hash from blocks`.execute(
    db,
  )
  return rows[0]!.hash
}
