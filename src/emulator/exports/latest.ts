/**
 * Selects the response of each client that the export of a form shows.
 *
 * Invariant: at most one response per client: the one submitted last or, if none is submitted, the last open one in
 * list order; never a skipped one. Memory is one index per client. Other requests are served in between.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { readStamp } from '../clock.ts'
import { findIndexes } from '../world/find-responses.ts'
import type { Response } from '../world/records.ts'
import { seededHead } from '../world/seeded/open-seed.ts'
import type { Head } from '../world/seeded/seed.ts'
import type { World } from '../world/world.ts'

const TURN = 4000

/** Indexes of responses in the order of the list. */
export async function latestOfEachClient(world: World, form: string): Promise<number[]> {
  const chosen = new Map<number, number>()
  const submitted = new Map<number, number>()
  const indexes = await findIndexes(world, { form })
  for (const [nth, index] of indexes.entries()) {
    if (nth % TURN === TURN - 1) await turn()
    const head = headAt(world, index)
    if (head.skipped) continue
    const at = head.submitted ?? -1
    if (at < (submitted.get(head.patient) ?? -1)) continue
    chosen.set(head.patient, index)
    submitted.set(head.patient, at)
  }
  return [...chosen.values()].sort((a, b) => a - b)
}

function headAt(
  { responses, patients, seed }: World,
  index: number,
): Pick<Head, 'patient' | 'submitted' | 'skipped'> {
  const touched: Response | undefined = responses.touched().get(index)
  if (touched === undefined) return seededHead(seed, index)
  return {
    patient: patients.ids.indexOf(touched.patient) ?? -1,
    submitted: touched.submitted_at === null ? null : (readStamp(touched.submitted_at) ?? null),
    skipped: touched.is_skipped,
  }
}
