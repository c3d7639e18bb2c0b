/** Shared parts of all simulated clients of a seed. */
import type { Backends } from './backends.ts'
import type { Choice } from './choice.ts'
import type { SimulatedClient } from './client.ts'
import type { Actor, Scheduler } from './scheduler.ts'

/** How often a delayed process is scheduled: others do a few dozen steps during one of its own. */
export const DAWDLING = 0.03

export interface SimulatedWarehouse {
  readonly scheduler: Scheduler
  readonly backends: Backends
  readonly choice: Choice
  /** Probability of a fault per statement. */
  readonly faultiness: () => number
  /** Probability that a session delays its transaction, so that others overtake it. */
  readonly dawdling: () => number
  /** True for a process that delays everything it does. */
  readonly isDawdling: (actor: Actor) => boolean
  /** Called when a drain claimed events of these teams, one entry per event. */
  readonly taken: (actor: Actor, teamIds: readonly number[]) => void
  /** Called when a drain committed this many events. */
  readonly drained: (events: number) => void
  readonly clients: Set<SimulatedClient>
  /** Sessions whose client is gone, which the server has not noticed yet. */
  forsaken: number
  /** Called when a session notified others. */
  readonly notify: (channel: string, payload: string) => void
  /** Called when a session ended those with these process ids. */
  readonly terminate: (processIds: readonly number[]) => void
  /** Called after a statement, before its process hears the result. */
  readonly passed: (actor: Actor, label: string, text: string) => void
  /** Called after a commit at which the world may be ended. */
  readonly committed: (actor: Actor) => void
}
