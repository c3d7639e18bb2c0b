/**
 * Gathers envelopes into batches and hands them to the loaders.
 *
 * Invariant: a batch holds each key once, in the state that supersedes the others; `add` waits while every loader is
 * busy, so that a fast source cannot fill the memory; `finish` resolves when every batch is committed and rejects
 * with the first failure.
 */
import { type Envelope, supersedes } from '../core/envelope.ts'
import type { DeadLetter } from '../load/dead-letters.ts'
import type { LoadMode } from '../load/load.ts'
import type { Source } from './source.ts'

/** Records and bytes of a batch: enough that a transaction's fixed cost does not show, little enough to be held. */
const MOST_RECORDS = 2_000
const MOST_CHARACTERS = 4_000_000

export interface Batcher {
  add(envelopes: readonly Envelope[], letters: readonly DeadLetter[]): Promise<void>
  /** Loads what is left and waits for all. Returns the ids that lost to another content. */
  finish(): Promise<readonly string[]>
}

export function openBatcher(source: Source, mode: LoadMode): Batcher {
  const { loaders, stream, taken, tally, load } = source
  const contested = new Set<string>()
  const running = new Set<Promise<void>>()
  let envelopes = new Map<string, Envelope>()
  let letters: DeadLetter[] = []
  let characters = 0
  let failure: { readonly error: unknown } | null = null

  function send(): void {
    const batch = { stream, taken, envelopes: [...envelopes.values()], deadLetters: letters }
    envelopes = new Map()
    letters = []
    characters = 0
    const loading = loaders
      .run((session) => load(session, batch, mode))
      .then((result) => {
        tally.changed += result.changed
        tally.unchanged += result.unchanged
        tally.deleted += result.deleted
        tally.deadLetters += result.deadLetters
        tally.problems += result.problems
        for (const id of result.contested) contested.add(id)
      })
      .catch((error: unknown) => {
        failure ??= { error }
      })
      .finally(() => running.delete(loading))
    running.add(loading)
  }

  function put(envelope: Envelope): void {
    const held = envelopes.get(envelope.id)
    if (held !== undefined && supersedes(held, envelope)) return
    envelopes.set(envelope.id, envelope)
    characters += envelope.content?.text.length ?? 0
  }

  return {
    async add(added, addedLetters) {
      letters.push(...addedLetters)
      for (const envelope of added) {
        put(envelope)
        if (envelopes.size < MOST_RECORDS && characters < MOST_CHARACTERS) continue
        await loaders.ready()
        if (failure !== null) throw failure.error
        send()
      }
    },
    async finish() {
      if (envelopes.size > 0 || letters.length > 0) send()
      await Promise.all(running)
      if (failure !== null) throw failure.error
      const ids = [...contested]
      contested.clear()
      return ids
    },
  }
}
