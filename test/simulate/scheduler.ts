/**
 * Decides what happens next: which of the pending calls (statements, requests, answers, events) continues, or how far
 * time advances.
 *
 * code runs until it waits ─► the pending calls are listed ─► the seed chooses one ─► it is executed ─► …
 *
 * Invariant: one thing happens at a time, and the next is chosen only when no code can run; so the choices follow from
 * the seed alone. Time advances by choices, and to the next timer when nothing else can happen. A call of a process that
 * has ended never returns.
 */
import type { Clock } from '../../src/core/clock.ts'
import type { Choice } from './choice.ts'

/** A simulated process; null stands for the outside world. */
export interface Actor {
  readonly name: string
  alive: boolean
  /** A stopped process does nothing and hears nothing until it goes on; its sessions stay open. */
  isStopped: boolean
  /** Since when nothing passes between it and Postgres; null while something does. */
  cutOffSince: number | null
  /** Nothing passes between it and the service. */
  isOffline: boolean
  /** Lead of its clock over the scheduler's. */
  readonly skewMicros: number
}

/** Something that may happen, but need not. */
export interface Offer {
  readonly label: string
  /** Weight relative to a pending call, which has 1. */
  readonly weight: number
  readonly act: () => void
}

interface Entry {
  readonly actor: Actor | null
  readonly label: string
  readonly work: Work
  /** Weight relative to other pending calls, which have 1. */
  readonly weight: number
  /** True when the work waits for another's lock. */
  readonly isBlocked: () => Promise<boolean>
  /** True while it cannot arrive, and its result cannot return. */
  readonly isDelayed: () => boolean
}

interface Timer {
  readonly at: number
  readonly actor: Actor | null
  readonly ring: () => void
}

/** Executes a call. If it resolves to a function, calling that returns the result to the caller, when scheduled. */
export type Work = () => Promise<unknown>

export interface Pending {
  /** Withdraws the call, unless it has begun: its caller gets no result. */
  withdraw(): boolean
}

/** Weight 1, and nothing in its way, when left out. */
export type CallOptions = Partial<Pick<Entry, 'weight' | 'isBlocked' | 'isDelayed'>>

export interface Scheduler {
  now(): number
  /** Advances time at once, as when a machine slept. */
  leap(milliseconds: number): void
  clockOf(actor: Actor | null): Clock
  /** Calls `ring` after this time; returns how to withdraw it. */
  after(milliseconds: number, ring: () => void, actor?: Actor): () => void
  /** Executes `work` when it is chosen. */
  call(actor: Actor | null, label: string, work: Work, options?: CallOptions): Pending
  /** Called before each choice. */
  offer(source: () => readonly Offer[]): void
  note(line: string): void
  readonly trace: readonly string[]
  /** Continues until `done`, which is checked when no code can run. Rejects after `most` choices. */
  run(done: () => boolean, most: number): Promise<void>
}

/** Real milliseconds that work may take before it is checked for waiting on a lock; on a busy machine it often takes longer. */
const LOOK_MS = 4
const MAX_LOOK_MS = 64
/** How often time advances although something could happen. */
const PASSING = 0.02
/** The longest such advance, in microseconds. */
const PASSES = 5_000_000

export function openScheduler(choice: Choice, start: number): Scheduler {
  const entries: Entry[] = []
  const blocked: { readonly entry: Entry; readonly done: ReturnType<Work> }[] = []
  const offers: (() => readonly Offer[])[] = []
  const timers: Timer[] = []
  const trace: string[] = []
  let now = start

  const lives = ({ actor }: { readonly actor: Actor | null }) => actor === null || actor.alive
  const goesOn = ({ actor }: { readonly actor: Actor | null }) => actor === null || !actor.isStopped

  function after(actor: Actor | null, milliseconds: number, ring: () => void): () => void {
    const timer = { at: now + Math.max(0, Math.round(milliseconds * 1000)), actor, ring }
    const before = timers.findIndex((other) => other.at > timer.at)
    timers.splice(before < 0 ? timers.length : before, 0, timer)
    return () => {
      const at = timers.indexOf(timer)
      if (at >= 0) timers.splice(at, 1)
    }
  }

  function sleep(actor: Actor | null, milliseconds: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const withdraw = after(actor, milliseconds, () => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      })
      const onAbort = () => {
        withdraw()
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  async function step(): Promise<boolean> {
    forget(entries)
    forget(timers)
    const possible = offers.flatMap((source) => source())
    const able = entries.filter((entry) => goesOn(entry) && !entry.isDelayed())
    const due = timers.filter((timer) => timer.at <= now && goesOn(timer))
    const first = timers.find(goesOn)
    if (able.length + due.length === 0 && possible.length === 0) {
      if (first === undefined) return false
      now = Math.max(now, first.at)
      return true
    }
    const idle = able.length + due.length === 0
    if (
      first !== undefined &&
      due.length === 0 &&
      first.at - now < PASSES &&
      choice.chance(idle ? 0.5 : PASSING)
    ) {
      now = first.at
      trace.push(`  time passes`)
      return true
    }
    const called = weightOf(able)
    const total = called + due.length + weightOf(possible)
    let place = choice.share() * total
    // Things may happen within the same microsecond.
    if (!choice.chance(0.1)) now += 1 + choice.below(400)
    if (place < called) {
      const entry = among(able, place)
      entries.splice(entries.indexOf(entry), 1)
      trace.push(`${entry.actor?.name ?? 'world'}: ${entry.label}`)
      await begin(entry)
      return true
    }
    place -= called
    if (place < due.length) {
      const timer = due[Math.floor(place)]!
      timers.splice(timers.indexOf(timer), 1)
      timer.ring()
      return true
    }
    place -= due.length
    const { label, act } = among(possible, place)
    trace.push(`* ${label}`)
    act()
    return true
  }

  async function begin(entry: Entry): Promise<void> {
    const done = entry.work()
    if (await isOver(entry, done, LOOK_MS)) deliver(entry, await done)
    else {
      blocked.push({ entry, done })
      trace.push(`  blocked: ${entry.actor?.name ?? 'world'}: ${entry.label}`)
    }
    // Blocked work continues as soon as it can, as in Postgres; its caller gets the result after that of the other.
    for (const each of [...blocked]) {
      await stillness()
      if (!(await isOver(each.entry, each.done, 1))) continue
      blocked.splice(blocked.indexOf(each), 1)
      trace.push(`  goes on: ${each.entry.label}`)
      deliver(each.entry, await each.done)
    }
  }

  /** False when it is blocked; waits until either is certain. */
  async function isOver(entry: Entry, done: ReturnType<Work>, lookMs: number): Promise<boolean> {
    let over = false
    void done.then(() => {
      over = true
    })
    for (let wait = lookMs; ; wait = Math.min(2 * wait, MAX_LOOK_MS)) {
      await within(wait, done)
      if (over) return true
      if (await entry.isBlocked()) return over
    }
  }

  /** The process may have been stopped, or cut off, while the work was done: then it hears the result later. */
  function deliver(entry: Entry, result: unknown): void {
    if (typeof result !== 'function') return
    if (goesOn(entry) && !entry.isDelayed()) return void result()
    entries.push({ ...entry, label: `hears: ${entry.label}`, work: async () => result, weight: 1 })
  }

  function forget(list: { readonly actor: Actor | null }[]): void {
    for (let at = list.length - 1; at >= 0; at--) if (!lives(list[at]!)) list.splice(at, 1)
  }

  return {
    now: () => now,
    leap(milliseconds) {
      now += milliseconds * 1000
    },
    after: (milliseconds, ring, actor) => after(actor ?? null, milliseconds, ring),
    clockOf: (actor) => ({
      now: () => now + (actor?.skewMicros ?? 0),
      sleep: (ms, signal) => sleep(actor, ms, signal),
    }),
    call(actor, label, work, { isBlocked = async () => false, isDelayed = () => false, weight = 1 } = {}) {
      const entry = { actor, label, work, weight, isBlocked, isDelayed }
      if (lives(entry)) entries.push(entry)
      return {
        withdraw() {
          const at = entries.indexOf(entry)
          if (at >= 0) entries.splice(at, 1)
          return at >= 0
        },
      }
    },
    offer: (source) => void offers.push(source),
    note: (line) => void trace.push(`  ${line}`),
    trace,
    async run(done, most) {
      for (let steps = 0; ; steps++) {
        await stillness()
        if (done()) return
        if (steps > most) throw new Error(`not at rest after ${most} choices`)
        if (!(await step())) throw new Error('nothing can happen any more')
      }
    },
  }
}

/** Resolves when no code can run: everything from here waits for a choice. */
async function stillness(): Promise<void> {
  do await new Promise((resolve) => setImmediate(resolve))
  while (process.getActiveResourcesInfo().some((name) => name === 'Immediate' || name.startsWith('FSReq')))
}

/** The call that `place` selects, from 0 up to the total weight. */
function among<Each extends { readonly weight: number }>(waiting: readonly Each[], place: number): Each {
  let left = place
  for (const each of waiting) {
    left -= each.weight
    if (left < 0) return each
  }
  return waiting.at(-1)!
}

function weightOf(waiting: readonly { readonly weight: number }[]): number {
  return waiting.reduce((sum, { weight }) => sum + weight, 0)
}

/** Waits for the work, but no longer than these real milliseconds. */
async function within(milliseconds: number, done: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, milliseconds)
  })
  await Promise.race([done, late]).finally(() => clearTimeout(timer))
}
