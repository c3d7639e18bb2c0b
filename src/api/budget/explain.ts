/**
 * A rejection, explained by one process for all: its owner. And the reports of requests that it needs.
 *
 * Invariant: from a rejection until its owner has learned from it, from the requests of all processes, none of them sends
 * anything. An owner that is gone, or has nothing to send where a request must test the limit, is replaced.
 */
import { type Division, withModel } from './division.ts'
import type { Limit } from './limit.ts'
import { SECOND } from './margin.ts'
import type { Permits } from './sends.ts'

/** The others report their requests before a rejection is explained. */
const HEARING = 150_000
/** Clocks are compared no more exactly. */
const SAME = 5_000
/** Ages of the requests that a report on a rejection names, in seconds, and the parts that each is divided into. */
const AGES = [
  [72, 4000, 24],
  [12, 72, 24],
  [1.2, 12, 24],
  [0, 1.2, 48],
] as const

/** A division on its way, and whether the others have to know. */
export interface Step {
  division: Division
  notify: boolean
  /** True if its model is what this process learned. */
  isMine: boolean
}

/** Calls that wait for a permit, and the urgent ones of them. */
export interface Demand {
  readonly waiting: number
  readonly urgent: number
}

export interface Here {
  readonly name: string
  readonly limit: Limit
  readonly demand: Demand
  /** Our time and the store's. */
  readonly now: number
  readonly storeNow: number
}

/** Stores pauses and rejections, and explains them if it is this process's turn. Returns true while it is the owner. */
export function explain(step: Step, here: Here, isAgreed: boolean): boolean {
  const { limit, now, storeNow } = here
  const offset = storeNow - now
  pauseAll(step, here)
  if (limit.isConfigured || step.division.isFixed) {
    if (!limit.isConfigured) limit.takeOver(null)
    limit.isBlocked = false
    return false
  }
  claim(step, here)
  const { episode, model } = step.division
  limit.isBlocked = episode !== null
  if (episode === null) {
    const isRaised = limit.mayRaise && isAgreed && model?.count !== limit.known?.count
    if (isRaised || (model === null && limit.known !== null)) publish(step, here)
    return false
  }
  if (episode.owner !== here.name) return false
  if (now < resumesAt(limit, true)) return true
  limit.others = Object.entries(step.division.holders)
    .filter(([other]) => other !== here.name)
    .flatMap(([, { sends }]) => sends.map(([at, count]) => [at - offset, count] as const))
  limit.isBlocked = false
  limit.resume(now)
  if (limit.episode === null) {
    publish(step, here)
    return false
  }
  if (here.demand.waiting + limit.inFlight > 0) return true
  limit.isBlocked = true
  step.division = { ...step.division, episode: { ...episode, owner: '' } }
  step.notify = true
  return false
}

/** When a rejection can be explained. */
export function resumesAt({ pausedUntil, episode }: Limit, isOwner: boolean): number {
  return Math.max(pausedUntil, isOwner ? (episode?.seenAt ?? 0) + HEARING : 0)
}

function pauseAll(step: Step, { limit, now, storeNow }: Here): void {
  const { pausedUntil } = step.division
  const own = limit.pausedUntil + storeNow - now
  if (own > Math.max(pausedUntil, storeNow) + SAME) {
    step.division = { ...step.division, pausedUntil: own }
    step.notify = true
  }
  limit.pause(pausedUntil - storeNow + now)
}

function claim(step: Step, { name, limit, demand, now, storeNow }: Here): void {
  const { episode, holders, explainedUntil } = step.division
  const offset = storeNow - now
  if (episode === null) {
    // A rejected request that was sent before the last one was explained adds nothing.
    if (limit.episode !== null && limit.episode.sentAt + offset <= explainedUntil) limit.takeOver(null)
    if (limit.episode === null) return
    const { sentAt, seenAt, rejections, retryAfter } = limit.episode
    const shared = { sentAt: sentAt + offset, seenAt: seenAt + offset, rejections, retryAfter }
    step.division = { ...step.division, episode: { owner: name, ...shared } }
    step.notify = true
  } else if (holders[episode.owner] === undefined && demand.waiting > 0) {
    const { sentAt, rejections, retryAfter } = episode
    limit.takeOver(limit.episode ?? { sentAt: sentAt - offset, seenAt: now, rejections, retryAfter })
    step.division = { ...step.division, episode: { ...episode, owner: name } }
  }
}

/** What this process learned is true for all. */
function publish(step: Step, { limit, storeNow }: Here): void {
  const isExplained = step.division.episode !== null
  if (limit.known !== null) step.division = withModel(step.division, limit.known, false, storeNow)
  if (isExplained) step.division = { ...step.division, episode: null, explainedUntil: storeNow }
  step.isMine = true
  step.notify = true
}

/** The requests of this process around a rejection of a request that was sent at `sentAt`, the newest last; our clock. */
export function requestsAround(limit: Limit, sentAt: number, now: number): Permits {
  const older = AGES.flatMap(([from, to, many]) =>
    requestsIn(limit, sentAt - to * SECOND, sentAt - from * SECOND, many),
  )
  return [...older, ...requestsIn(limit, sentAt, Math.max(sentAt + 1, now), 8)]
}

/** The requests of this process in (from, to], in this many parts. */
export function requestsIn(limit: Limit, from: number, to: number, many: number): Permits {
  const length = (to - from) / many
  const all: [number, number][] = []
  for (let part = 0; part < many; part++) {
    const start = from + part * length
    const some = limit.sentBetween(start, start + length)
    if (some > 0) all.push([start + length / 2, some])
  }
  return all
}
