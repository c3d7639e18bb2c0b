/**
 * What a batch writes, within the transaction at hand: raw, root, children, dead letters, findings. Whoever opened the
 * transaction settles what the batch came from (a slice, inbox rows) and commits both together (law 3).
 *
 * Invariant: writing a batch again, or any part of it in any order beside any other, ends in the same tables (law 2).
 * Nothing of an erased patient is written.
 */
import type { StreamName } from '../core/streams.ts'
import type { Stream } from '../streams/stream.ts'
import type { Session } from '../warehouse/connect.ts'
import { sendCopy } from './copy.ts'
import { type DeadLetter, setAside } from './dead-letters.ts'
import { withoutErased } from './erased-lines.ts'
import { recordFindings } from './findings.ts'
import type { BatchLines } from './lines.ts'
import { type LoadStatements, statementsOf, type TableStatements } from './statements.ts'

export interface Writing {
  readonly stream: Stream
  readonly place: { readonly teamId: number; readonly stream: StreamName; readonly runId: string | null }
  /** Of one team and stream; no key twice. */
  readonly lines: BatchLines
  readonly deadLetters: readonly DeadLetter[]
  /**
   * - `empty`: straight into the tables, which then must not hold any of the keys.
   * - `reads`: pages and fetches, through staging. A read that stands above what an event brought after it is told.
   * - `events`: through staging. Ties are told, whoever won: a retried event bears newer data under its old time. So
   *   is what brings back a record that was read to be gone.
   */
  readonly from: 'empty' | 'reads' | 'events'
  /** True when the transaction has asked already, and nobody is. */
  readonly nobodyErased?: boolean
  /** Of reads: a moment before they were asked for, in the clock of the warehouse. */
  readonly askedAt?: string
}

export interface LoadResult {
  /** Records written, new or changed. */
  readonly changed: number
  /** Tombstones written. */
  readonly deleted: number
  /** Records of erased patients: nothing of them is written. */
  readonly erased: number
  readonly deadLetters: number
  readonly problems: number
  /** Ids of which nobody can tell whether what won is the newer content: the source has to be asked again. */
  readonly contested: readonly string[]
}

/** Creates the session's staging tables of the stream where they are missing; before the transaction begins. */
export async function prepareStaging({ client }: Session, stream: Stream): Promise<void> {
  await client.query(statementsOf(stream).createStaging)
}

export async function writeBatch(
  session: Session,
  { stream, place, lines: given, deadLetters, from, askedAt, nobodyErased = false }: Writing,
): Promise<LoadResult> {
  const statements = statementsOf(stream)
  const lines = nobodyErased ? given : await withoutErased(session, stream, place.teamId, given)
  let told: readonly Told[] = []
  if (from === 'empty') await copyAll(session, statements.copy.straight, lines)
  else told = await mergeAll(session, statements, lines, { from, askedAt })
  const letters = await setAside(session.db, place, deadLetters)
  await recordFindings(session.db, place, lines.findings)
  const erased = given.count - lines.count
  return { ...written(lines, told), erased, deadLetters: letters, problems: lines.findings.problems }
}

/** What a merge tells of a record that lost or tied. */
interface Told {
  readonly id: string
  readonly tombstone: boolean
  readonly lost: boolean
  readonly contested: boolean
}

async function mergeAll(
  session: Session,
  statements: LoadStatements,
  lines: BatchLines,
  { from, askedAt = null }: { from: 'reads' | 'events'; askedAt?: string | null | undefined },
): Promise<readonly Told[]> {
  const { client } = session
  await copyAll(session, statements.copy.staged, lines)
  const { rows: told } =
    from === 'events'
      ? await client.query<Told>(statements.mergeEvents)
      : await client.query<Told>(statements.mergeReads, [askedAt])
  const ids = told.filter((each) => each.lost).map((each) => each.id)
  if (ids.length > 0) {
    for (const statement of statements.dropLosers) await client.query(statement, [ids])
  }
  await client.query(statements.mergeTables)
  return told
}

function written(lines: BatchLines, told: readonly Told[]) {
  const lost = told.filter((each) => each.lost)
  const deleted = lines.tombstones - lost.filter((each) => each.tombstone).length
  const changed = lines.count - lost.length - deleted
  return { changed, deleted, contested: told.filter((each) => each.contested).map((each) => each.id) }
}

async function copyAll({ client }: Session, to: TableStatements, lines: BatchLines): Promise<void> {
  await sendCopy(client, to.records, lines.records)
  await sendCopy(client, to.root, lines.root)
  for (let at = 0; at < lines.children.length; at++)
    await sendCopy(client, to.children[at]!, lines.children[at]!)
}
