/** Reports the outcome of a batch team by team: counts and seconds, never a value of an event. */
import type { DrainWatch } from '../watch.ts'
import type { Outcome } from './settle-one-by-one.ts'

export function reportOutcome(
  watch: DrainWatch,
  teams: readonly { readonly name: string; readonly teamId: number }[],
  { loaded, postponed, deadLettered }: Outcome,
): void {
  for (const { name, teamId } of teams) {
    const events = { done: 0, dead: 0, retried: 0 }
    const visibleSeconds: number[] = []
    for (const { rows, dead, settled } of loaded) {
      const seconds = new Map(settled.map((each) => [each.seq, each.seconds]))
      for (const row of rows) {
        if (row.teamId !== teamId) continue
        if (dead.has(row)) {
          events.dead += 1
          continue
        }
        events.done += 1
        visibleSeconds.push(seconds.get(row.seq) ?? 0)
      }
    }
    events.retried += postponed.filter((row) => row.teamId === teamId).length
    events.dead += deadLettered.filter((row) => row.teamId === teamId).length
    if (events.done + events.dead + events.retried > 0) watch.drained(name, events, visibleSeconds)
  }
}
