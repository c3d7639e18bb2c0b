/**
 * Reads the list once more, for entries that cannot be fetched by id.
 *
 * Invariant: only the wanted entries stay in memory, each in its greatest state; an entry that is no longer listed is not
 * in the result.
 */
import { type Envelope, supersedes } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import { readRecord } from '../../normalize/read-record.ts'
import type { FetchedStates } from '../conflicts/settle-conflicts.ts'
import type { Source } from '../source.ts'

export async function relist(
  source: Source,
  ids: readonly string[],
  purpose: 'refetch' | 'repair',
): Promise<readonly Envelope[]> {
  const { client, stream, taken, serviceClock, meter, signal } = source
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId} ${purpose}` }
  const wanted = new Set(ids)
  const found = new Map<string, Envelope>()
  const resource = stream.listedAs ?? stream.name
  for await (const page of client.pages(client.pathOf(stream.list!), { resource, meter, signal })) {
    serviceClock.sample(page)
    const observedAt = serviceClock.observedAt(page.startedAt) as Instant
    for (const value of page.records) {
      const read = readRecord(value, { ...place, observedAt, invalidUtf8: page.invalidUtf8 })
      if (read.kind !== 'record' || !wanted.has(read.envelope.id)) continue
      const before = found.get(read.envelope.id)
      if (before === undefined || supersedes(read.envelope, before))
        found.set(read.envelope.id, read.envelope)
    }
  }
  return [...found.values()]
}

/** For `settleConflicts`, in place of a fetch by id. */
export async function refetchFromList(source: Source, ids: readonly string[]): Promise<FetchedStates> {
  return { envelopes: await relist(source, ids, 'refetch'), deadLetters: [] }
}
