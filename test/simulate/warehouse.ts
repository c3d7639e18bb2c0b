/** What all simulated clients of a seed have in common. */
import type { Backends } from './backends.ts'
import type { Choice } from './choice.ts'
import type { SimulatedClient } from './client.ts'
import type { Actor, Scheduler } from './scheduler.ts'

/** How often who dawdles is given its turn: others do a few dozen things while it does one. */
export const DAWDLING = 0.03

export interface SimulatedWarehouse {
  readonly scheduler: Scheduler
  readonly backends: Backends
  readonly choice: Choice
  /** How likely each statement meets a fault. */
  readonly faultiness: () => number
  /** How likely a session dawdles over a transaction, so that others overtake it. */
  readonly dawdling: () => number
  /** True of a process that dawdles over all that it does. */
  readonly isDawdling: (actor: Actor) => boolean
  /** Called when a drain took events of these teams, one for each, off the inbox. */
  readonly taken: (actor: Actor, teamIds: readonly number[]) => void
  /** Called when a drain committed so many events. */
  readonly drained: (events: number) => void
  readonly clients: Set<SimulatedClient>
  /** Sessions whose client is gone, which the server has yet to notice. */
  forsaken: number
  /** Called when a session asked that others be told. */
  readonly notify: () => void
  /** Called after a commit that the world may now be ended at. */
  readonly committed: (actor: Actor) => void
}
