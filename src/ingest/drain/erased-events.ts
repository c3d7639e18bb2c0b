/**
 * Removes events of erased patients from the inbox, including their bytes, before they are loaded.
 *
 * Invariant: runs within the transaction that loads the batch, so that an event is either loaded before its patient was
 * erased, and then removed by the erasure, or removed here. In a team without erasures the events are not parsed.
 */
import { subjectsOfBody } from '../../load/erased-dead-letters.ts'
import {
  countSkipped,
  type Erasures,
  erasedAmong,
  openErasuresOf,
  type Skipped,
} from '../../load/erasures.ts'
import type { Session } from '../../warehouse/connect.ts'
import { type InboxRow, remove } from './inbox-rows.ts'

export interface Remaining {
  /** Events that concern no erased patient: the same array when none was removed. */
  readonly rows: readonly InboxRow[]
  /** Teams of the batch without erasures, and without new ones until the transaction ends. */
  readonly withoutErasures: ReadonlySet<number>
}

export async function withoutErasedEvents(session: Session, rows: readonly InboxRow[]): Promise<Remaining> {
  const teamIds = [...new Set(rows.map((row) => row.teamId))].sort((a, b) => a - b)
  const erasures = await openErasuresOf(session.db, teamIds)
  const withoutErasures = new Set(teamIds.filter((teamId) => !erasures.has(teamId)))
  const erased = new Set<InboxRow>()
  for (const [teamId, own] of erasures) {
    const ofTeam = rows.filter((row) => row.teamId === teamId)
    for (const row of await erasedIn(session, own, ofTeam)) erased.add(row)
  }
  if (erased.size === 0) return { rows, withoutErasures }
  await remove(session, [...erased])
  return { rows: rows.filter((row) => !erased.has(row)), withoutErasures }
}

async function erasedIn(
  { db }: Session,
  erasures: Erasures,
  rows: readonly InboxRow[],
): Promise<readonly InboxRow[]> {
  const subjects = rows.map(({ body }) => {
    const { own, others } = subjectsOfBody(undefined, body)
    return { own: own === null ? null : erasures.hashOf(own), others: others.map(erasures.hashOf) }
  })
  const known = await erasedAmong(
    db,
    subjects.flatMap(({ own, others }) => (own === null ? others : [own, ...others])),
  )
  if (known.size === 0) return []
  const skipped = new Map<string, Skipped>()
  const erased = rows.filter((_, at) => {
    const { own, others } = subjects[at]!
    const found = [own ?? '', ...others].find((hash) => known.has(hash))
    if (found === undefined) return false
    // The event's own record is noted too: a later event may contain only its id.
    const hash = own ?? found
    skipped.set(hash, { hash, patient: known.get(found)!, times: (skipped.get(hash)?.times ?? 0) + 1 })
    return true
  })
  await countSkipped(db, erasures, [...skipped.values()])
  return erased
}
