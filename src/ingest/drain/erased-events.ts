/**
 * Events of erased patients: they are taken off the inbox, bytes and all, before anything is made of them.
 *
 * Invariant: within the transaction that loads the batch, so that an event is either loaded before its patient was
 * erased, and swept then, or removed here. Where nobody was erased the events are not looked at.
 */
import { subjectsOfBody } from '../../load/erased-letters.ts'
import { countSkipped, type Erasures, erasedAmong, openErasures, type Skipped } from '../../load/erasures.ts'
import type { Session } from '../../warehouse/connect.ts'
import { type InboxRow, remove } from './inbox-rows.ts'

export interface Spared {
  /** Those of nobody who was erased: the same array when all are. */
  readonly rows: readonly InboxRow[]
  /** True when nobody is in any of their teams, and nobody will be until the transaction ends. */
  readonly nobodyErased: boolean
}

export async function withoutErasedEvents(session: Session, rows: readonly InboxRow[]): Promise<Spared> {
  const erased = new Set<InboxRow>()
  let nobodyErased = true
  for (const teamId of new Set(rows.map((row) => row.teamId))) {
    const erasures = await openErasures(session.db, teamId)
    if (erasures === null) continue
    nobodyErased = false
    const own = rows.filter((row) => row.teamId === teamId)
    for (const row of await erasedIn(session, erasures, own)) erased.add(row)
  }
  if (erased.size === 0) return { rows, nobodyErased }
  await remove(session, [...erased])
  return { rows: rows.filter((row) => !erased.has(row)), nobodyErased }
}

async function erasedIn(
  { db }: Session,
  erasures: Erasures,
  rows: readonly InboxRow[],
): Promise<readonly InboxRow[]> {
  const told = rows.map(({ body }) => {
    const { own, others } = subjectsOfBody(undefined, body)
    return { own: own === null ? null : erasures.hashOf(own), others: others.map(erasures.hashOf) }
  })
  const known = await erasedAmong(
    db,
    told.flatMap(({ own, others }) => (own === null ? others : [own, ...others])),
  )
  if (known.size === 0) return []
  const skipped = new Map<string, Skipped>()
  const erased = rows.filter((_, at) => {
    const { own, others } = told[at]!
    const found = [own ?? '', ...others].find((hash) => known.has(hash))
    if (found === undefined) return false
    // The event's own record is noted too: a later event may tell its id alone.
    const hash = own ?? found
    skipped.set(hash, { hash, patient: known.get(found)!, times: (skipped.get(hash)?.times ?? 0) + 1 })
    return true
  })
  await countSkipped(db, erasures, [...skipped.values()])
  return erased
}
