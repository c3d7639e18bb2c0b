/**
 * Where a drain begins its search for pending events: after those of each team that it took a while ago.
 *
 * While another session holds an old snapshot, Postgres keeps the index entries of events that were settled since, and a
 * search from the beginning of the inbox reads all of them, for each batch.
 *
 * Invariant: an event before the start (stored late, postponed, retried, taken by a process that failed) is found by the
 * next search from the beginning. These take a twentieth of the time at most, however long one lasts.
 */
import type { Clock } from '../../core/clock.ts'

/** Returns the `seq` after which a team's pending events are searched for. */
export type StartOf = (teamId: number) => string

interface Place {
  readonly teamId: number
  readonly seq: string
}

export interface SearchStart {
  /** Runs a search; `find` returns rows in the order of `seq`. */
  search<Row extends Place>(find: (startOf: StartOf) => Promise<readonly Row[]>): Promise<readonly Row[]>
  /** After a failure: events that were taken may be pending again. The next search is one from the beginning. */
  reset(): void
}

/** Transactions that store events overlap, and commit later than others with a greater `seq`. */
const LAG_MICROS = 2_000_000
const SHARE_OF_TIME = 20

const FROM_THE_BEGINNING: StartOf = () => '0'

export function openSearchStart(clock: Clock): SearchStart {
  /** The greatest `seq` taken of each team: now, one to two lags ago, and before that. */
  let taken = new Map<number, string>()
  let takenLately = new Map<number, string>()
  let start = new Map<number, string>()
  let nextShift = 0
  let nextWhole = 0

  function note(rows: readonly Place[], whole: boolean): void {
    for (const { teamId, seq } of rows) {
      if (whole && Number(seq) <= Number(start.get(teamId) ?? 0)) {
        // Nothing before this event is due, and many after it may be.
        const before = String(Number(seq) - 1)
        for (const map of [start, takenLately, taken]) map.set(teamId, before)
      }
      if (Number(seq) > Number(taken.get(teamId) ?? 0)) taken.set(teamId, seq)
    }
  }

  return {
    async search(find) {
      const began = clock.now()
      if (began >= nextShift) {
        start = takenLately
        takenLately = new Map(taken)
        nextShift = began + LAG_MICROS
      }
      const whole = began >= nextWhole
      const rows = await find(whole ? FROM_THE_BEGINNING : (teamId) => start.get(teamId) ?? '0')
      if (whole) {
        const ended = clock.now()
        nextWhole = ended + (ended - began) * (SHARE_OF_TIME - 1)
      }
      note(rows, whole)
      return rows
    },
    reset() {
      taken = new Map()
      takenLately = new Map()
      start = new Map()
      nextWhole = 0
    },
  }
}
