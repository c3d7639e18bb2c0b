/**
 * Writes a batch within the current transaction: raw, root, children, findings. The caller settles the source of the batch
 * (a slice, inbox rows) in the same transaction (law 3).
 *
 * Invariant: writing a batch again, or parts of it in any order and concurrently with others, gives the same tables (law
 * 2). Records of erased patients are not written.
 */
import { finished } from 'node:stream/promises'
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import type { BatchLines } from '../../normalize/lines.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { recordFindings } from '../dead-letters.ts'
import { withoutErased } from '../erasures.ts'
import { type LoadStatements, statementsOf, type TableStatements } from './statements.ts'

export interface BatchToWrite {
  readonly stream: Stream
  /** Of one stream and any number of teams, with distinct keys. */
  readonly lines: BatchLines
  readonly from: BatchSource
  /** Teams that this transaction has already found to have no erasures. */
  readonly withoutErasures?: ReadonlySet<number>
}

/**
 * - `empty`: copied into the tables, which must not contain any of the keys.
 * - `pages`, `answers`, `events`: merged through staging; they differ in what counts as a conflict (`statements`).
 *   `requestedAt` is a moment before the page or record was requested, in the clock of the warehouse.
 */
export type BatchSource =
  | { readonly kind: 'empty' }
  | { readonly kind: 'pages' | 'answers'; readonly requestedAt: string }
  | { readonly kind: 'events' }

export interface WriteResult {
  /** Records written, new or changed. */
  readonly changed: number
  /** Tombstones written. */
  readonly deleted: number
  /** Records of erased patients, which are not written. */
  readonly erased: number
  readonly problems: number
  /** Records in conflict, which must be fetched by id. */
  readonly conflicts: readonly RecordKey[]
}

export interface RecordKey {
  readonly teamId: number
  readonly id: string
}

/** Creates the session's staging tables of the stream where they are missing; before the transaction begins. */
export async function prepareStaging({ client }: Session, stream: Stream): Promise<void> {
  await client.query(statementsOf(stream).createStaging)
}

export async function writeBatch(
  session: Session,
  { stream, lines: given, from, withoutErasures }: BatchToWrite,
): Promise<WriteResult> {
  const statements = statementsOf(stream)
  const lines = await withoutErased(session, stream, given, { withoutErasures })
  let outcomes: readonly MergeOutcome[] = []
  if (from.kind === 'empty') await copyAll(session, statements.copy.straight, lines)
  else if (lines.count > 0) outcomes = await mergeAll(session, statements, lines, from)
  await recordFindings(session.db, stream.name, lines.findings)
  const erased = given.count - lines.count
  return { ...countsOf(lines, outcomes), erased, problems: lines.findings.problems }
}

/** What a merge returns of a record that lost, or that is in conflict. */
interface MergeOutcome {
  readonly team_id: number
  readonly id: string
  readonly tombstone: boolean
  readonly lost: boolean
  readonly conflict: boolean
}

async function mergeAll(
  session: Session,
  statements: LoadStatements,
  lines: BatchLines,
  from: Exclude<BatchSource, { kind: 'empty' }>,
): Promise<readonly MergeOutcome[]> {
  const { client } = session
  await client.query(statements.emptyStaging)
  await copyAll(session, statements.copy.staged, lines)
  await client.query(statements.lockCurrent)
  const { rows: outcomes } = await client.query<MergeOutcome>(
    statements.merge[from.kind],
    from.kind === 'events' ? [] : [from.requestedAt],
  )
  const losers = outcomes.filter((outcome) => outcome.lost)
  if (losers.length > 0) {
    const keys = [losers.map((loser) => loser.team_id), losers.map((loser) => loser.id)]
    for (const statement of statements.dropLosers) await client.query(statement, keys)
  }
  await client.query(statements.mergeTables)
  return outcomes
}

function countsOf(lines: BatchLines, outcomes: readonly MergeOutcome[]) {
  const losers = outcomes.filter((outcome) => outcome.lost)
  const deleted = lines.tombstones - losers.filter((loser) => loser.tombstone).length
  const changed = lines.count - losers.length - deleted
  const conflicts = outcomes.filter((each) => each.conflict)
  return { changed, deleted, conflicts: conflicts.map(({ team_id, id }) => ({ teamId: team_id, id })) }
}

async function copyAll({ client }: Session, to: TableStatements, lines: BatchLines): Promise<void> {
  await sendCopy(client, to.records, lines.records)
  await sendCopy(client, to.root, lines.root)
  for (let index = 0; index < lines.children.length; index++)
    await sendCopy(client, to.children[index]!, lines.children[index]!)
}

/** Runs `statement` (`copy … from stdin`) with `lines` in the text format of COPY; does nothing without lines. */
export async function sendCopy(client: pg.Client, statement: string, lines: Buffer): Promise<void> {
  if (lines.length === 0) return
  const [, table, columns] = INTO_INTAKE.exec(statement) ?? []
  if (table === undefined || columns === undefined || !(await hasRowSecurity(client))) {
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
async function hasRowSecurity(client: pg.Client): Promise<boolean> {
  const known = bound.get(client)
  if (known !== undefined) return known
  const { rows } = await client.query<{ bound: boolean }>(
    `select coalesce(row_security_active(to_regclass($1)), false) as bound`,
    [`intake.${ALL_STREAMS[0]!.table}`],
  )
  bound.set(client, rows[0]!.bound)
  return rows[0]!.bound
}
