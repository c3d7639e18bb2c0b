/**
 * The timers of simulated processes: what a process starts with `setTimeout` or `setInterval` rings in the scheduler's time.
 *
 * Invariant: code outside of a process has the real timers; so has everything once this is disposed of.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Actor, Scheduler } from './scheduler.ts'

const running = new AsyncLocalStorage<Actor>()

/** Executes `work`, and all that follows from it, as code of this process. */
export function asActor<Result>(actor: Actor, work: () => Result): Result {
  return running.run(actor, work)
}

const WITHDRAW = Symbol('withdraw')

export function replaceTimers(scheduler: Scheduler): Disposable {
  const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis
  const real = { setTimeout, clearTimeout, setInterval, clearInterval }

  const start =
    (usual: typeof setTimeout | typeof setInterval, repeats: boolean) =>
    (callback: (...args: unknown[]) => void, milliseconds = 0, ...args: unknown[]) => {
      const actor = running.getStore()
      if (actor === undefined) return usual(callback, milliseconds, ...args)
      let withdraw = () => {}
      const arm = () => {
        withdraw = scheduler.after(Math.max(1, milliseconds), ring, actor)
      }
      const ring = () => {
        if (repeats) arm()
        asActor(actor, () => callback(...args))
      }
      arm()
      const timer = {
        ref: () => timer,
        unref: () => timer,
        hasRef: () => true,
        [WITHDRAW]: () => withdraw(),
        [Symbol.dispose]: () => withdraw(),
      }
      return timer
    }

  const stop = (usual: (timer: never) => void) => (timer: unknown) => {
    const own = (timer as { [WITHDRAW]?: () => void } | null | undefined)?.[WITHDRAW]
    if (own === undefined) usual(timer as never)
    else own()
  }

  Object.assign(globalThis, {
    setTimeout: start(setTimeout, false),
    setInterval: start(setInterval, true),
    clearTimeout: stop(clearTimeout),
    clearInterval: stop(clearInterval),
  })
  return { [Symbol.dispose]: () => void Object.assign(globalThis, real) }
}
