/**
 * Splits a batch that Postgres refused, or that our own code failed on, in two until the event at fault is alone.
 *
 * Invariant: an event at fault is tried again a few times, with growing pauses, and then dead-lettered; no other event
 * waits for it. Each failure that an event caused is passed on, because a defect may show only in a part of the batch. A
 * failure that no event caused (a lost connection, a lock, a full disk) is thrown.
 */
import { INBOX } from '../../core/envelope.ts'
import { storeDeadLetters } from '../../load/dead-letters.ts'
import { whyNotLoaded } from '../../load/merge/load.ts'
import { streamOfSource } from '../../streams/catalogue.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { DrainWatch } from '../watch.ts'
import { type InboxRow, postpone, settle, takeThese } from './inbox-rows.ts'
import { type LoadedBatch, type Loading, prepare, write } from './load-events.ts'
import { deadLetterBody } from './read-event.ts'

export interface Backoff {
  /** Milliseconds before each further attempt at an event; after the last it is dead-lettered. */
  readonly backoffMs: readonly number[]
}

export interface DrainOutcome {
  readonly loaded: readonly LoadedBatch[]
  /** Events to be tried again. */
  readonly postponed: readonly InboxRow[]
  readonly deadLettered: readonly InboxRow[]
}

/** True for a failure that an event of the batch caused, and not the connection. */
export function isCausedByAnEvent(error: unknown): boolean {
  return whyNotLoaded(error, 'event') !== null
}

export async function settleOneByOne(
  session: Session,
  loading: Loading & Backoff,
  rows: readonly InboxRow[],
  onFailure: (error: unknown, part: readonly InboxRow[]) => Promise<void>,
): Promise<DrainOutcome> {
  const loaded: LoadedBatch[] = []
  const postponed: InboxRow[] = []
  const deadLettered: InboxRow[] = []

  async function attempt(part: readonly InboxRow[]): Promise<void> {
    const seqs = part.map((row) => row.seq)
    try {
      const prepared = await prepare(session, loading, () => takeThese(session, seqs))
      if (prepared !== null) loaded.push(await write(session, loading, prepared))
    } catch (error) {
      await session.client.query('rollback').catch(() => {})
      if (!isCausedByAnEvent(error)) throw error
      await onFailure(error, part)
      if (part.length > 1) {
        const middle = part.length >> 1
        await attempt(part.slice(0, middle))
        await attempt(part.slice(middle))
      } else if (await postponeOrDeadLetter(session, loading, part[0]!, error)) postponed.push(part[0]!)
      else deadLettered.push(part[0]!)
    }
  }

  await attempt(rows)
  return { loaded, postponed, deadLettered }
}

/** True when the event is to be tried again, false when it is dead-lettered. */
async function postponeOrDeadLetter(
  session: Session,
  { backoffMs }: Backoff,
  row: InboxRow,
  error: unknown,
): Promise<boolean> {
  const pause = backoffMs[row.attempts]
  if (pause !== undefined) {
    await postpone(session, row, pause)
    return true
  }
  const { teamId, eventId, source, recordId } = row
  const stream = source === null ? undefined : streamOfSource(source)
  const body = deadLetterBody(row.body, stream)
  const deadLetter = { recordId, origin: `event:${eventId}`, reason: whyNotLoaded(error, 'event')!, body }
  await session.client.query('begin')
  await storeDeadLetters(session.db, { teamId, stream: stream?.name ?? INBOX, runId: null }, [deadLetter])
  await settle(session, [row], 'dead')
  await session.client.query('commit')
  return false
}

/** Reports the outcome of a batch team by team: counts and seconds, never a value of an event. */
export function reportOutcome(
  watch: DrainWatch,
  teams: readonly { readonly name: string; readonly teamId: number }[],
  { loaded, postponed, deadLettered }: DrainOutcome,
): void {
  for (const { name, teamId } of teams) {
    const events = { done: 0, dead: 0, retried: 0 }
    const visibleSeconds: number[] = []
    for (const { rows, dead, settled } of loaded) {
      const seconds = new Map(settled.map((each) => [each.seq, each.seconds]))
      for (const row of rows) {
        if (row.teamId !== teamId) continue
        if (dead.has(row)) {
          events.dead += 1
          continue
        }
        events.done += 1
        visibleSeconds.push(seconds.get(row.seq) ?? 0)
      }
    }
    events.retried += postponed.filter((row) => row.teamId === teamId).length
    events.dead += deadLettered.filter((row) => row.teamId === teamId).length
    if (events.done + events.dead + events.retried > 0) watch.drained(name, events, visibleSeconds)
  }
}
