/**
 * Gathers envelopes into batches and passes them to the loaders.
 *
 *     add ─► [skip unchanged] ─► gather ─► batch of new records     ─► loader
 *                                     └──► batch of changed records ─► loader
 *
 * Invariant: a batch contains each key once; `add` waits while every loader is busy, so that a fast source cannot fill
 * the memory; `finish` resolves when every batch is committed, and rejects with the first failure.
 */
import { setImmediate } from 'node:timers/promises'
import type { Envelope } from '../../core/envelope.ts'
import type { LoadMode } from '../../load/merge/load.ts'
import {
  type ComparedEnvelope,
  type HashedRecord,
  placesChanged,
  withoutUnchanged,
} from '../../load/merge/skip-unchanged.ts'
import { openLines } from '../../normalize/lines.ts'
import type { DeadLetter, ReadRecord } from '../../normalize/read-record.ts'
import type { Source } from '../source.ts'

/** Records and bytes of a batch: enough that a transaction's fixed cost is negligible, few enough for the memory. */
const MAX_RECORDS = 2_500
const MAX_BYTES = 4_000_000
/** Records of several pages are compared with the stored ones once there are this many; the rest at the end. */
const COMPARED = 100
/** While no other batch is being loaded, this many are enough: they need not wait for the end of the list. */
const WHILE_IDLE = 300

/**
 * Records processed between two yields to the event loop. In each turn the loaders' sockets take as much as they can
 * buffer; with longer turns Postgres would wait for data many times in each batch.
 */
export const RECORDS_PER_TURN = 20

export interface Batcher {
  add(envelopes: readonly Envelope[], deadLetters: readonly DeadLetter[]): Promise<void>
  /** Skips entries whose records are stored as they are, and adds the others as `read` reads them. */
  addKnown<Entry extends HashedRecord>(
    entries: readonly Entry[],
    read: (entry: Entry) => ReadRecord,
  ): Promise<void>
  /**
   * Loads the remaining records and waits for all batches. Returns the ids whose incoming state lost to different
   * content.
   */
  finish(): Promise<readonly string[]>
}

/**
 * - `straight`: the stream's tables were empty when the run began.
 * - `skip-unchanged`: unchanged records are dropped page by page, so that they do not stay in memory; records that the
 *   warehouse does not have are loaded straight, the others merged.
 * - `merge`: everything is loaded; the version of an unchanged record moves on.
 */
export type BatchMode = LoadMode | 'skip-unchanged'

export function openBatcher(source: Source, mode: BatchMode): Batcher {
  const { loaders, stream, taken, tally, load } = source
  const conflicting = new Set<string>()
  const running = new Set<Promise<void>>()
  const straight = openPile('straight')
  const merged = openPile('merge')
  const uncompared: Envelope[] = []
  let deadLetters: DeadLetter[] = []
  let loading = 0
  let failure: { readonly error: unknown } | null = null

  function run(work: Promise<void>): void {
    const watched = work
      .catch((error: unknown) => {
        failure ??= { error }
      })
      .finally(() => running.delete(watched))
    running.add(watched)
  }

  function skipUnchanged(): void {
    const added = uncompared.splice(0)
    const skipped = loaders.run((session) => withoutUnchanged(session, stream, added))
    run(
      skipped.then(async (changed) => {
        tally.unchanged += added.length - changed.length
        await gather(changed)
      }),
    )
  }

  async function readChanged<Entry extends HashedRecord>(
    entries: readonly Entry[],
    read: (entry: Entry) => ReadRecord,
  ): Promise<void> {
    const places = await loaders.run((session) => placesChanged(session, stream, taken.teamId, entries))
    tally.unchanged += entries.length - places.length
    const reads = places.map((place) => read(entries[place]!))
    deadLetters.push(...reads.flatMap((each) => (each.kind === 'dead' ? each.deadLetter : [])))
    const envelopes = reads.flatMap((each) => (each.kind === 'record' ? each.envelope : []))
    compare(envelopes)
  }

  function compare(added: readonly Envelope[]): void {
    uncompared.push(...added)
    if (uncompared.length >= COMPARED) skipUnchanged()
  }

  async function gather(added: readonly (Envelope | ComparedEnvelope)[]): Promise<void> {
    for (const [index, envelope] of added.entries()) {
      if (index % RECORDS_PER_TURN === RECORDS_PER_TURN - 1) await setImmediate()
      const isNew = 'isNew' in envelope && envelope.isNew
      const pile = mode === 'straight' || (mode === 'skip-unchanged' && isNew) ? straight : merged
      pile.add(envelope)
    }
    if (mode === 'straight') return
    for (const pile of [straight, merged]) if (loading === 0 && pile.count >= WHILE_IDLE) pile.send()
  }

  function openPile(loadMode: LoadMode) {
    const ids = new Set<string>()
    const lines = openLines(stream)
    const pile = {
      get count() {
        return lines.count
      },
      add(envelope: Envelope): void {
        // A repeated key goes into the next batch; whichever commits first, the greater state stays.
        if (ids.has(envelope.id)) pile.send()
        ids.add(envelope.id)
        lines.add(envelope)
        if (lines.count >= MAX_RECORDS || lines.bytes >= MAX_BYTES) pile.send()
      },
      send(): void {
        const batch = { stream, taken, lines: lines.build(), deadLetters }
        ids.clear()
        deadLetters = []
        loading += 1
        const loaded = loaders.run((session) => load(session, batch, loadMode))
        const done = loaded.finally(() => {
          loading -= 1
        })
        run(
          done.then((result) => {
            lines.release(batch.lines)
            tally.changed += result.changed
            tally.deleted += result.deleted
            tally.erased += result.erased
            tally.deadLetters += result.deadLetters
            tally.problems += result.problems
            for (const id of result.conflicts) conflicting.add(id)
          }),
        )
      },
    }
    return pile
  }

  /** Waits for all work in progress, including batches that it starts. */
  async function settle(): Promise<void> {
    while (running.size > 0) await Promise.all(running)
    if (failure !== null) throw failure.error
  }

  return {
    async add(added, addedDeadLetters) {
      await loaders.ready()
      if (failure !== null) throw failure.error
      deadLetters.push(...addedDeadLetters)
      if (mode === 'skip-unchanged') compare(added)
      else await gather(added)
    },
    async addKnown(entries, read) {
      await loaders.ready()
      if (failure !== null) throw failure.error
      if (entries.length > 0) run(readChanged(entries, read))
    },
    async finish() {
      await settle()
      if (uncompared.length > 0) skipUnchanged()
      await settle()
      if (straight.count > 0) straight.send()
      if (merged.count > 0 || deadLetters.length > 0) merged.send()
      await settle()
      const found = [...conflicting]
      conflicting.clear()
      return found
    },
  }
}
