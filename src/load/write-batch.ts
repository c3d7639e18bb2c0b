/**
 * What a batch writes, within the transaction at hand: raw, root, children, dead letters, findings. Whoever opened the
 * transaction settles what the batch came from (a slice, inbox rows) and commits both together (law 3).
 *
 * Invariant: writing a batch again, or any part of it in any order beside any other, ends in the same tables (law 2).
 */
import type { StreamName } from '../core/streams.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { sendCopy } from './copy.ts'
import { type DeadLetter, setAside } from './dead-letters.ts'
import { recordFindings } from './findings.ts'
import type { BatchLines } from './lines.ts'
import { type LoadStatements, statementsOf, type TableStatements } from './statements.ts'

export interface Writing {
  readonly stream: Stream
  readonly place: { readonly teamId: number; readonly stream: StreamName; readonly runId: string | null }
  /** Of one team and stream; no key twice. */
  readonly lines: BatchLines
  readonly deadLetters: readonly DeadLetter[]
}

export interface LoadResult {
  /** Records written, new or changed. */
  readonly changed: number
  /** Tombstones written. */
  readonly deleted: number
  readonly deadLetters: number
  readonly problems: number
  /** Ids that lost to another content although they arrived later: the source has to be asked again. */
  readonly contested: readonly string[]
}

/** Creates the session's staging tables of the stream where they are missing; before the transaction begins. */
export async function prepareStaging({ client }: Session, stream: Stream): Promise<void> {
  await client.query(statementsOf(stream).createStaging)
}

/** Writes through staging, or straight into the tables, which then must not hold any of the keys. */
export async function writeBatch(
  session: Session,
  { stream, place, lines, deadLetters }: Writing,
  straight = false,
): Promise<LoadResult> {
  const statements = statementsOf(stream)
  let losers: readonly Loser[] = []
  if (straight) await copyAll(session, statements.copy.straight, lines)
  else losers = await mergeAll(session, statements, lines)
  await setAside(session.db, place, deadLetters)
  await recordFindings(session.db, place, lines.findings)
  return { ...written(lines, losers), deadLetters: deadLetters.length, problems: lines.findings.problems }
}

interface Loser {
  readonly id: string
  readonly tombstone: boolean
  readonly contested: boolean
}

async function mergeAll(
  session: Session,
  statements: LoadStatements,
  lines: BatchLines,
): Promise<readonly Loser[]> {
  await copyAll(session, statements.copy.staged, lines)
  const { rows: losers } = await session.client.query<Loser>(statements.mergeRecords)
  if (losers.length > 0) {
    const ids = losers.map((loser) => loser.id)
    for (const statement of statements.dropLosers) await session.client.query(statement, [ids])
  }
  await session.client.query(statements.mergeTables)
  return losers
}

function written(lines: BatchLines, losers: readonly Loser[]) {
  const deleted = lines.tombstones - losers.filter((loser) => loser.tombstone).length
  const changed = lines.count - losers.length - deleted
  return { changed, deleted, contested: losers.filter((loser) => loser.contested).map((loser) => loser.id) }
}

async function copyAll({ client }: Session, to: TableStatements, lines: BatchLines): Promise<void> {
  await sendCopy(client, to.records, lines.records)
  await sendCopy(client, to.root, lines.root)
  for (let at = 0; at < lines.children.length; at++)
    await sendCopy(client, to.children[at]!, lines.children[at]!)
}
