/** The processes of `serve`: the started ones, and those that already receive events. */
import type { Processes, Serve } from './processes.ts'
import type { Actor } from './scheduler.ts'

export interface Serves {
  /** Number of live processes, whether or not they receive events yet. */
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
