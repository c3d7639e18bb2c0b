/**
 * Decides what happens next: which of the calls that wait (statements, requests, answers, events) goes on, or how far
 * time moves.
 *
 *     code runs until it waits ─► all that waits is looked at ─► the seed chooses one ─► it is done ─► …
 *
 * Invariant: one thing happens at a time, and the next is chosen only when no code can run any more; so the choices
 * follow from the seed alone. Time moves by the choices, and to the next timer when nothing else can happen. A call
 * of a process that has ended never returns.
 */
import type { Clock } from '../../src/core/clock.ts'
import type { Choice } from './choice.ts'

/** A simulated process; null, in its place, is the world around. */
export interface Actor {
  readonly name: string
  alive: boolean
}

/** Something that may happen, but need not. */
export interface Offer {
  readonly label: string
  /** Beside a call that waits, which weighs 1. */
  readonly weight: number
  readonly act: () => void
}

interface Entry {
  readonly actor: Actor | null
  readonly label: string
  readonly work: Work
  /** Beside others that wait, which weigh 1. */
  readonly weight: number
  /** True when the work is held up by another's lock. */
  readonly heldUp: () => Promise<boolean>
}

interface Timer {
  readonly at: number
  readonly actor: Actor | null
  readonly ring: () => void
}

/** Does what was called for. Where it resolves to a function, that tells the caller, when it is the turn of that. */
export type Work = () => Promise<unknown>

export interface Pending {
  /** Takes the call back, unless it has begun: its caller hears nothing more of it. */
  withdraw(): boolean
}

export interface Scheduler {
  now(): number
  /** Moves time on at once, as when a machine slept. */
  leap(milliseconds: number): void
  clockOf(actor: Actor | null): Clock
  /** Does `work` when it is chosen; `weight` is how often, beside others that wait, which weigh 1. */
  call(
    actor: Actor | null,
    label: string,
    work: Work,
    heldUp?: () => Promise<boolean>,
    weight?: number,
  ): Pending
  /** Asked before each choice. */
  offer(source: () => readonly Offer[]): void
  note(line: string): void
  readonly trace: readonly string[]
  /** Goes on until `done`, which is asked when no code can run. Rejects after `most` choices. */
  run(done: () => boolean, most: number): Promise<void>
}

/** How long, in real milliseconds, work may take before it is asked whether it is held up. */
const LOOK_MS = 4
/** How often time passes although something could happen. */
const PASSING = 0.02
/** The most that passes so, in microseconds. */
const PASSES = 5_000_000

export function openScheduler(choice: Choice, start: number): Scheduler {
  const entries: Entry[] = []
  const heldUp: { readonly entry: Entry; readonly done: ReturnType<Work> }[] = []
  const offers: (() => readonly Offer[])[] = []
  const timers: Timer[] = []
  const trace: string[] = []
  let now = start

  const lives = ({ actor }: { readonly actor: Actor | null }) => actor === null || actor.alive

  function sleep(actor: Actor | null, milliseconds: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const timer = { at: now + Math.max(0, Math.round(milliseconds * 1000)), actor, ring }
      const onAbort = () => {
        const at = timers.indexOf(timer)
        if (at >= 0) timers.splice(at, 1)
        reject(signal?.reason)
      }
      function ring(): void {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }
      const before = timers.findIndex((other) => other.at > timer.at)
      timers.splice(before < 0 ? timers.length : before, 0, timer)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  async function step(): Promise<boolean> {
    forget(entries)
    forget(timers)
    const possible = offers.flatMap((source) => source())
    const due = timers.filter((timer) => timer.at <= now)
    const first = timers[0]
    if (entries.length + due.length === 0 && possible.length === 0) {
      if (first === undefined) return false
      now = Math.max(now, first.at)
      return true
    }
    const idle = entries.length + due.length === 0
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
    const called = weightOf(entries)
    const total = called + due.length + weightOf(possible)
    let place = choice.share() * total
    // Things may happen within the same microsecond.
    if (!choice.chance(0.1)) now += 1 + choice.below(400)
    if (place < called) {
      const entry = among(entries, place)
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
    if (await isOver(entry, done, LOOK_MS)) tell(await done)
    else {
      heldUp.push({ entry, done })
      trace.push(`  held up: ${entry.actor?.name ?? 'world'}: ${entry.label}`)
    }
    // What was held up goes on as soon as it can, as Postgres has it; its caller hears of it later than the other's.
    for (const held of [...heldUp]) {
      await stillness()
      if (!(await isOver(held.entry, held.done, 1))) continue
      heldUp.splice(heldUp.indexOf(held), 1)
      trace.push(`  goes on: ${held.entry.label}`)
      tell(await held.done)
    }
  }

  /** False when it is held up; waits until either is sure. */
  async function isOver(entry: Entry, done: ReturnType<Work>, lookMs: number): Promise<boolean> {
    let over = false
    void done.then(() => {
      over = true
    })
    for (;;) {
      await Promise.race([done, real(lookMs)])
      if (over) return true
      if (await entry.heldUp()) return over
    }
  }

  function forget(list: { readonly actor: Actor | null }[]): void {
    for (let at = list.length - 1; at >= 0; at--) if (!lives(list[at]!)) list.splice(at, 1)
  }

  return {
    now: () => now,
    leap(milliseconds) {
      now += milliseconds * 1000
    },
    clockOf: (actor) => ({ now: () => now, sleep: (ms, signal) => sleep(actor, ms, signal) }),
    call(actor, label, work, isHeldUp = async () => false, weight = 1) {
      const entry = { actor, label, work, weight, heldUp: isHeldUp }
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

/** Resolves when no code can run: what goes on from here waits for a choice. */
async function stillness(): Promise<void> {
  do await new Promise((resolve) => setImmediate(resolve))
  while (process.getActiveResourcesInfo().some((name) => name === 'Immediate' || name.startsWith('FSReq')))
}

/** The one that `place` falls on, from 0 up to the weight of all. */
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

function tell(told: unknown): void {
  if (typeof told === 'function') told()
}

function real(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}
