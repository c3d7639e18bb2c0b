/**
 * Gathers envelopes into batches and hands them to the loaders.
 *
 *     added ─► [sifted: unchanged ones dropped at once] ─► gathered ─► batch ─► loader
 *
 * Invariant: a batch holds each key once; `add` waits while every loader is
 * busy, so that a fast source cannot fill the memory; `finish` resolves when every batch is committed and rejects
 * with the first failure.
 */
import { setImmediate } from 'node:timers/promises'
import type { Envelope } from '../../core/envelope.ts'
import type { LoadMode } from '../../load/load.ts'
import { withoutUnchanged } from '../../load/merge/skip-unchanged.ts'
import type { DeadLetter } from '../../normalize/dead-letter.ts'
import { openLines } from '../../normalize/lines.ts'
import type { Source } from '../source.ts'

/** Records and bytes of a batch: enough that a transaction's fixed cost does not show, little enough to be held. */
const MOST_RECORDS = 2_500
const MOST_BYTES = 4_000_000

/**
 * Records worked on before the event loop gets a turn: the loaders' connections have to be fed meanwhile, as much as
 * their sockets hold in each turn, or Postgres waits for us many times in each batch.
 */
export const BREATH = 20

export interface Batcher {
  add(envelopes: readonly Envelope[], letters: readonly DeadLetter[]): Promise<void>
  /** Loads what is left and waits for all. Returns the ids that lost to another content. */
  finish(): Promise<readonly string[]>
}

/**
 * - `straight`: the stream's tables were empty when the run began.
 * - `sift`: what the warehouse holds already is dropped, page by page, so that it does not stay in memory.
 * - `merge`: everything is loaded, and what is unchanged moves its version on.
 */
export type BatchMode = LoadMode | 'sift'

export function openBatcher(source: Source, mode: BatchMode): Batcher {
  const { loaders, stream, taken, tally, load } = source
  const loadMode: LoadMode = mode === 'straight' ? 'straight' : 'merge'
  const contested = new Set<string>()
  const running = new Set<Promise<void>>()
  const ids = new Set<string>()
  const lines = openLines(stream)
  let letters: DeadLetter[] = []
  let failure: { readonly error: unknown } | null = null

  function run(work: Promise<void>): void {
    const watched = work
      .catch((error: unknown) => {
        failure ??= { error }
      })
      .finally(() => running.delete(watched))
    running.add(watched)
  }

  function sift(added: readonly Envelope[]): void {
    const sifted = loaders.run((session) => withoutUnchanged(session, added, stream.entryAt !== undefined))
    run(
      sifted.then(async (changed) => {
        tally.unchanged += added.length - changed.length
        await gather(changed)
      }),
    )
  }

  async function gather(added: readonly Envelope[]): Promise<void> {
    for (const [at, envelope] of added.entries()) {
      if (at % BREATH === BREATH - 1) await setImmediate()
      // A key that comes again goes into the next batch; whichever commits first, the greater state stays.
      if (ids.has(envelope.id)) send()
      ids.add(envelope.id)
      lines.add(envelope)
      if (lines.count >= MOST_RECORDS || lines.bytes >= MOST_BYTES) send()
    }
  }

  function send(): void {
    const batch = { stream, taken, lines: lines.build(), deadLetters: letters }
    ids.clear()
    letters = []
    run(
      loaders
        .run((session) => load(session, batch, loadMode))
        .then((result) => {
          lines.giveBack(batch.lines)
          tally.changed += result.changed
          tally.deleted += result.deleted
          tally.erased += result.erased
          tally.deadLetters += result.deadLetters
          tally.problems += result.problems
          for (const id of result.conflicts) contested.add(id)
        }),
    )
  }

  /** Waits for all that is under way, what it gathers included. */
  async function settle(): Promise<void> {
    while (running.size > 0) await Promise.all(running)
    if (failure !== null) throw failure.error
  }

  return {
    async add(added, addedLetters) {
      await loaders.ready()
      if (failure !== null) throw failure.error
      letters.push(...addedLetters)
      if (mode === 'sift' && added.length > 0) sift(added)
      else await gather(added)
    },
    async finish() {
      await settle()
      if (lines.count > 0 || letters.length > 0) send()
      await settle()
      const doubtful = [...contested]
      contested.clear()
      return doubtful
    },
  }
}
