/**
 * One stream of one team, rebuilt from intake_raw.
 *
 *     intake_raw, portion by portion ─► mapped here, while Postgres compares the portion before ─► rewritten
 *
 * Invariant: the portions cover all possible ids, so that a row without a record is in one of them. A record that Postgres
 * refuses keeps its rows, is counted, and does not stop the others.
 */
import type { Envelope } from '../../core/envelope.ts'
import { isRefusalOfData } from '../../load/load.ts'
import type { Session } from '../../warehouse/connect.ts'
import { nextPortion } from '../expected/from-raw.ts'
import { describeTables } from '../expected/tables.ts'
import { type Replaying, replayFiles } from './replay-files.ts'
import { type Part, type Rewritten, rewritePart } from './rewrite.ts'

export interface Replayed extends Rewritten {
  /** Records of intake_raw, tombstones among them. */
  readonly records: number
  /** Records whose rows Postgres would not take. */
  readonly refused: number
}

export async function replayStream(replaying: Replaying): Promise<Replayed> {
  const { session, loaders, teamId, stream, signal, onProgress } = replaying
  const tables = await describeTables(session, stream)
  const total = { records: 0, rewritten: 0, removed: 0, refused: 0 }
  // First, because the rows of exports contain the problems of their files.
  if (tables.files.length > 0) {
    const files = await replayFiles(replaying, tables)
    total.rewritten += files.rewritten
    total.refused += files.refused
  }
  const running = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | null = null

  async function rewrite(part: Part): Promise<void> {
    const counts = await loaders.run((loader) => rewriteOrHalve(loader, part))
    total.rewritten += counts.rewritten
    total.removed += counts.removed
    total.refused += counts.refused
  }

  for (let after: string | null = null, ended = false; !ended; ) {
    signal.throwIfAborted()
    const { envelopes, to } = await nextPortion(session, { teamId, stream: stream.name }, after)
    await loaders.ready()
    if (failure !== null) break
    const work = rewrite({ teamId, tables, envelopes, scope: { kind: 'range', after, to } })
      .catch((error: unknown) => {
        failure ??= { error }
      })
      .finally(() => running.delete(work))
    running.add(work)
    total.records += envelopes.length
    onProgress(total.records)
    after = to
    ended = to === null
  }
  await Promise.all(running)
  if (failure !== null) throw (failure as { readonly error: unknown }).error
  return total
}

type Counts = Rewritten & { readonly refused: number }

async function rewriteOrHalve(session: Session, part: Part): Promise<Counts> {
  try {
    return { ...(await rewritePart(session, part)), refused: 0 }
  } catch (error) {
    const { envelopes } = part
    if (!isRefusalOfData((error as { code?: string }).code) || envelopes.length === 0) throw error
    if (envelopes.length === 1) return { rewritten: 0, removed: 0, refused: 1 }
    const middle = envelopes.length >> 1
    const first = await rewriteOrHalve(session, partOf(part, envelopes.slice(0, middle), 'first'))
    const second = await rewriteOrHalve(session, partOf(part, envelopes.slice(middle), 'second'))
    return {
      rewritten: first.rewritten + second.rewritten,
      removed: first.removed + second.removed,
      refused: first.refused + second.refused,
    }
  }
}

/** Of a part that is cut in two, the second begins after the last id of the first. */
function partOf(part: Part, envelopes: readonly Envelope[], half: 'first' | 'second'): Part {
  const { scope } = part
  if (scope.kind !== 'range')
    return { ...part, envelopes, scope: { kind: 'ids', ids: envelopes.map(({ id }) => id) } }
  const bounds =
    half === 'first'
      ? { after: scope.after, to: envelopes.at(-1)!.id }
      : { after: part.envelopes[part.envelopes.length - envelopes.length - 1]!.id, to: scope.to }
  return { ...part, envelopes, scope: { kind: 'range', ...bounds } }
}
