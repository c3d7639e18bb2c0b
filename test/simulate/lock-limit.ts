/** The lock timeout of Postgres, in the scheduler's time. */
import type { Backend } from './backends.ts'
import type { SimulatedWarehouse } from './warehouse.ts'

export interface LockLimit {
  /** True when it ended the statement. */
  fired: boolean
  stop(): void
}

export function limitWait(
  { scheduler, backends }: SimulatedWarehouse,
  backend: Backend,
  ms: number,
  isOver: () => boolean,
): LockLimit {
  const stop = scheduler.after(ms, () => {
    limit.fired = true
    scheduler.call(null, 'a wait for a lock ends', async () => {
      // Postgres notices a little later, and a busy machine much later: the next choice comes after that.
      for (; !isOver(); await new Promise((resolve) => setTimeout(resolve, 1)))
        if (await backends.isBlocked(backend)) await backends.cancel(backend)
    })
  })
  const limit = { fired: false, stop }
  return limit
}
