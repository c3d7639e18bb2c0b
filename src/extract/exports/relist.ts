/**
 * Asking again for entries of a list of which none can be asked for by its id: the list is read once more, for all that
 * are asked for at the same time.
 *
 * Invariant: an entry is as it is listed after it was asked for; one that is listed no more is nothing.
 */
import type { Instant } from '../../core/time.ts'
import { readRecord } from '../../load/read-record.ts'
import type { Proof } from '../deletes.ts'
import type { Source } from '../source.ts'

const NOTHING: Proof = { envelopes: [], letters: [] }

/** For `settleContested`, in place of a fetch by id. */
export function openRelisting(): (source: Source, id: string) => Promise<Proof> {
  let listing: Promise<ReadonlyMap<string, Proof>> | null = null
  return async (source, id) => {
    listing ??= list(source).finally(() => {
      listing = null
    })
    return (await listing).get(id) ?? NOTHING
  }
}

async function list(source: Source): Promise<ReadonlyMap<string, Proof>> {
  const { client, stream, taken, serviceClock, meter, signal } = source
  const entries = new Map<string, Proof>()
  for await (const page of client.pages(client.paths[stream.list!], {
    resource: stream.list!,
    meter,
    signal,
  })) {
    serviceClock.sample(page)
    for (const value of page.records) {
      const read = readRecord(value, {
        teamId: taken.teamId,
        stream: stream.name,
        origin: `run:${taken.runId} refetch`,
        observedAt: serviceClock.observedAt(page.startedAt) as Instant,
        invalidUtf8: page.invalidUtf8,
      })
      if (read.kind === 'record') entries.set(read.envelope.id, { envelopes: [read.envelope], letters: [] })
    }
  }
  return entries
}
