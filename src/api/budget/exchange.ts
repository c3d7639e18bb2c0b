/**
 * What one process does to the division of its team's budget at each exchange: joins, reports its requests, explains a
 * rejection or takes over what another process learned, gives permits back or takes some.
 *
 * Invariant: permits are given up before the division says so, and used only once it does. `change` may be called again
 * before `done`, with another division.
 */
import type { Clock } from '../../core/clock.ts'
import {
  type Division,
  emptyDivision,
  exchangeOf,
  type Holder,
  inOrder,
  LEASE,
  strictestOf,
  swept,
  withFreed,
  withModel,
  withoutModel,
  withoutPermits,
} from './division.ts'
import { type Demand, explain, requestsAround, requestsIn, type Step } from './explain.ts'
import type { Limit } from './limit.ts'
import type { ModelState } from './limit-model.ts'
import { SECOND } from './margin.ts'
import { type Permits, Share } from './sends.ts'

export interface PartOptions {
  readonly name: string
  readonly limit: Limit
  readonly clock: Clock
  readonly demand: () => Demand
}

function isSameLimit(one: ModelState | null, other: ModelState | null): boolean {
  return one?.count === other?.count && one?.window === other?.window
}

/** A request waited for the limit so recently that more permits would be used. */
const LATELY = 1.2 * SECOND

export class Part {
  readonly #name: string
  readonly #limit: Limit
  readonly #clock: Clock
  readonly #demand: () => Demand
  /** Null: learned from answers. If another process has a lower limit, that one applies. */
  readonly #configured: ModelState | null
  /** The store's clock less ours, and how exactly that is known. */
  #offset = 0
  #offsetWithin = Number.POSITIVE_INFINITY
  /** Of the division that this process agrees with; -1 before the first. */
  revision = -1
  /** N of that division. */
  count: number | null = null
  /** True while this process explains a rejection. */
  isOwner = false
  /** True if this process has less than its share. */
  isShort = false
  /** When the latest division was read, or asked for. */
  readAt = 0
  #isLeaving = false
  #before: Share
  #taken: Permits = []
  #agreed: Division = emptyDivision()

  constructor({ name, limit, clock, demand }: PartOptions) {
    this.#name = name
    this.#limit = limit
    this.#clock = clock
    this.#demand = demand
    this.#configured = limit.isConfigured ? limit.known : null
    this.#before = new Share(clock.now())
    limit.share = this.#before
  }

  begin(isLeaving: boolean): void {
    this.#isLeaving = isLeaving
    this.readAt = this.#clock.now()
    this.#before = this.#limit.share ?? new Share(this.readAt)
  }

  change(stored: unknown, storeNow: number): Step {
    const now = this.#clock.now()
    this.#measureClock(storeNow, now)
    const limit = this.#limit
    limit.share = this.#before.copy()
    const division = swept((stored as Division | null) ?? emptyDivision(), storeNow)
    const step: Step = { division, notify: false, isMine: false }
    const here = { name: this.#name, limit, demand: this.#demand(), now, storeNow: now + this.#offset }
    this.#join(step, now, storeNow)
    this.isOwner = explain(step, here, division.revision === this.revision)
    this.#agree(step, now)
    this.#taken = this.#isLeaving ? [] : this.#trade(step, now, storeNow)
    if (this.#isLeaving) this.#leave(step, now)
    this.#agreed = step.division
    this.readAt = now
    return step
  }

  done(): void {
    this.#limit.share?.take(this.#taken.map(([at, some]) => [at - this.#offset, some]))
    this.revision = this.#agreed.revision
    this.count = this.#agreed.model?.count ?? null
  }

  #toStore(permits: Permits): Permits {
    return permits.map(([at, some]) => [at + this.#offset, some])
  }

  /** The division was read between the last step and now; a quick answer says most. */
  #measureClock(storeNow: number, now: number): void {
    const within = (now - this.readAt) / 2
    this.#offsetWithin *= 1.05
    if (within > this.#offsetWithin) return
    this.#offset = storeNow - now + within
    this.#offsetWithin = within
  }

  #join(step: Step, now: number, storeNow: number): void {
    const limit = this.#limit
    const known = step.division.holders[this.#name]
    if (known === undefined) {
      limit.share = new Share(now)
      step.notify = Object.keys(step.division.holders).length > 0
    }
    const { since = storeNow, permits = 0 } = known ?? {}
    const me = { ...this.#report(step.division, now), until: storeNow + LEASE, since, permits }
    step.division = { ...step.division, holders: { ...step.division.holders, [this.#name]: me } }
    const { model, isFixed, holders, learned } = step.division
    const strictest = strictestOf(step.division)
    if (strictest !== null) {
      if (!isFixed || !isSameLimit(model, strictest))
        step.division = withModel(step.division, strictest, true, storeNow)
    } else if (isFixed && !Object.values(holders).some((holder) => holder.isFixed)) {
      step.division =
        learned === null ? withoutModel(step.division) : withModel(step.division, learned, false, storeNow)
    }
    // The limit of another process is not what this one has learned.
    if (step.division.model === null && limit.isFixed) {
      limit.adopt(null, now)
      limit.isFixed = false
    }
  }

  #report({ episode }: Division, now: number): Omit<Holder, 'since' | 'permits' | 'until'> {
    const limit = this.#limit
    const { waiting, urgent } = this.#demand()
    const isPressed = now - limit.pressedAt < LATELY || waiting > 0
    const sentAt = limit.episode?.sentAt ?? (episode === null ? null : episode.sentAt - this.#offset)
    const usual = limit.known === null ? [] : requestsIn(limit, now - limit.span, now, 8)
    return {
      wants: isPressed ? null : limit.sentBetween(now - limit.span, now) + 1,
      urgent,
      sends: this.#toStore(sentAt === null ? usual : requestsAround(limit, sentAt, now)),
      isFixed: limit.isConfigured,
      ...(this.#configured === null ? {} : { limit: this.#configured }),
    }
  }

  /** Adopts what another process has learned, or its lower configured limit, and the share that the division knows. */
  #agree({ division, isMine }: Step, now: number): void {
    const limit = this.#limit
    const { revision, model, isFixed, holders } = division
    const isChanged = revision !== this.revision && !isMine
    const isKnown = isSameLimit(model, limit.known)
    // A configured one also where an attempt that was not stored took over another, from a division of the same revision.
    const isOther = isFixed ? !isKnown || (isChanged && !limit.isConfigured) : isChanged
    const { episode } = limit
    if (isOther && model !== null) limit.adopt(model, now)
    // What another process has learned does not explain the rejection that this one has taken over.
    if (this.isOwner) limit.takeOver(episode)
    limit.isFixed = isFixed
    const { permits } = holders[this.#name]!
    if (limit.share!.count !== permits) limit.share!.reset(permits)
    limit.mayRaise = !isFixed && inOrder(holders)[0] === this.#name
  }

  #trade(step: Step, now: number, storeNow: number): Permits {
    if (step.division.model === null) return []
    const { give, take, isShort } = exchangeOf(step.division, this.#name, storeNow)
    const given = give > 0 ? this.#toStore(this.#limit.give(give, now)) : []
    const me = step.division.holders[this.#name]!
    const permits = me.permits - give + take.reduce((sum, [, some]) => sum + some, 0)
    const holders = { ...step.division.holders, [this.#name]: { ...me, permits } }
    const pool = withoutPermits(step.division.pool, take)
    step.division = withFreed({ ...step.division, holders, pool }, given)
    this.isShort = give === 0 && isShort
    // Others wait for what was given.
    step.notify ||= give > 0 && isShort
    return take
  }

  #leave(step: Step, now: number): void {
    const { [this.#name]: me, ...holders } = step.division.holders
    const given = step.division.model === null ? [] : this.#toStore(this.#limit.give(me!.permits, now))
    const { episode } = step.division
    const isEmpty = Object.keys(holders).length === 0
    const open = isEmpty
      ? { pausedUntil: 0, episode: null }
      : { episode: this.isOwner ? { ...episode!, owner: '' } : episode }
    step.division = withFreed({ ...step.division, holders, ...open }, given)
    step.notify = !isEmpty
    this.isOwner = false
  }
}
