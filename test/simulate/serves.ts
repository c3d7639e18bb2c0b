/** The processes of `serve`: those that were started, and those of them that take events already. */
import type { Processes, Serve } from './processes.ts'
import type { Actor } from './scheduler.ts'

export interface Serves {
  /** How many are alive, whether they take events or not yet. */
  readonly started: number
  readonly ready: readonly Serve[]
  start(): void
}

export function openServes(processes: Processes): Serves {
  const started = new Set<Actor>()
  const serving = new Set<Serve>()
  return {
    get started() {
      return [...started].filter((actor) => actor.alive).length
    },
    get ready() {
      return [...serving].filter(({ actor }) => actor.alive)
    },
    start() {
      const { actor, ready } = processes.serve()
      started.add(actor)
      void ready.then((serve) => serving.add(serve))
    },
  }
}
