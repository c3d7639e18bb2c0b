/**
 * What befalls processes that live on: one is stopped for a while, cut off from Postgres, or cut off from the service; or it
 * is ended.
 *
 * Invariant: the sessions of a stopped process stay open, with their locks. Those of a process that is cut off end on the
 * server after eleven seconds, as its keepalives have it; the process hears of that when it is no longer cut off.
 */
import type { Choice } from './choice.ts'
import { UNSEEN_MS } from './client.ts'
import type { Actor, Scheduler } from './scheduler.ts'
import type { SimulatedWarehouse } from './warehouse.ts'

export interface Hindrances {
  /** A random one. */
  strike(actor: Actor): void
  /** Stops it, or cuts it off from Postgres, for so long at most. */
  pause(actor: Actor, how: 'stopped' | 'cut off', milliseconds: number): void
  /** It goes on. */
  end(actor: Actor): void
  /** True for a process to which nothing happens at present. */
  isFree(actor: Actor): boolean
  /** True while something is hindered. */
  readonly isAny: boolean
  /** All that is hindered goes on. */
  endAll(): void
}

/** After one of these statements a process is struck more often than at other times. */
const STEPS = [
  /set state = 'claimed'/,
  /update intake_ops\.slices set state/,
  /insert into "intake_ops"\."run_streams"/,
  /update intake_ops\.runs set status/,
  /with lost as/,
  /insert into "?intake_raw"?\."?records/,
  /^(?:drain|settle|refetch)/,
]

export function isStep(label: string, text: string): boolean {
  return STEPS.some((step) => step.test(text) || step.test(label))
}

export function openHindrances(options: {
  readonly scheduler: Scheduler
  readonly choice: Choice
  readonly warehouse: SimulatedWarehouse
  readonly kill: (actor: Actor) => void
}): Hindrances {
  const { scheduler, choice, warehouse, kill } = options
  const open = new Map<Actor, () => void>()

  const drawn = () => choice.one([1_000, 10_000, 20_000]) + choice.below(choice.one([2_000, 8_000, 40_000]))

  function hinder(actor: Actor, what: string, milliseconds: number, goOn: () => void): void {
    scheduler.note(`${actor.name} ${what} for ${milliseconds} ms`)
    const end = () => {
      withdraw()
      if (!open.delete(actor)) return
      scheduler.note(`${actor.name} goes on`)
      goOn()
    }
    const withdraw = scheduler.after(milliseconds, end)
    open.set(actor, end)
  }

  function stop(actor: Actor, milliseconds: number): void {
    actor.isStopped = true
    hinder(actor, 'is stopped', milliseconds, () => {
      actor.isStopped = false
    })
  }

  function cutOff(actor: Actor, milliseconds: number): void {
    const since = scheduler.now()
    actor.cutOffSince = since
    const miss = () => {
      if (actor.cutOffSince !== since) return
      for (const client of warehouse.clients) if (client.actor === actor) client.miss()
    }
    scheduler.after(UNSEEN_MS, miss)
    hinder(actor, 'is cut off from Postgres', milliseconds, () => {
      actor.cutOffSince = null
    })
  }

  return {
    pause: (actor, how, milliseconds) => (how === 'stopped' ? stop : cutOff)(actor, milliseconds),
    end: (actor) => open.get(actor)?.(),
    isFree: (actor) => !open.has(actor),
    get isAny() {
      return open.size > 0
    },
    strike(actor) {
      switch (
        choice.one(['ended', 'ended', 'stopped', 'stopped', 'stopped', 'cut off', 'cut off', 'offline'])
      ) {
        case 'ended':
          scheduler.note(`${actor.name} is ended at once`)
          return kill(actor)
        case 'stopped':
          return stop(actor, drawn())
        case 'cut off':
          return cutOff(actor, drawn())
        case 'offline':
          actor.isOffline = true
          return hinder(actor, 'is cut off from the service', drawn(), () => {
            actor.isOffline = false
          })
      }
    },
    endAll() {
      for (const end of [...open.values()]) end()
    },
  }
}
