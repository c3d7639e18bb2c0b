/**
 * The budget of one team as its processes share it: who has how many of the N permits, and why nothing may be sent.
 *
 * Invariant: the permits of all holders and of the pool are N together, less `debt` while more than N are still in use. A
 * permit changes hands only by way of the pool, dated with the time from which it may be used. A holder that is silent
 * for `LEASE` is gone: those of its permits that it cannot have used since its last word are free at once. Pure; times
 * are microseconds of the store's clock.
 */
import type { ModelState } from './limit-model.ts'
import { SECOND } from './margin.ts'
import { merged, type Permits } from './sends.ts'

/** Silence after which a holder is gone. */
export const LEASE = 2 * SECOND
/** Permits that are usable this soon are given out. */
const AHEAD = 2 * SECOND
/** Those who get one more where N is no multiple of their number change this often. */
const TURN = 10 * SECOND

export interface Holder {
  /** End of its lease. */
  readonly until: number
  /** Order of joining. */
  readonly since: number
  readonly permits: number
  /** Permits that it can use in a window; null: any number. */
  readonly wants: number | null
  /** Of these, urgent ones. */
  readonly urgent: number
  /** Its requests of the last window or, while rejections are to be explained, of more time: [time, how many]. */
  readonly sends: Permits
  /** True if its limit is configured. */
  readonly isFixed: boolean
  /** That limit; older versions do not report it. */
  readonly limit?: ModelState
}

/** Rejections that one of the processes has to explain, on the store's clock. */
export interface SharedEpisode {
  readonly owner: string
  readonly sentAt: number
  readonly seenAt: number
  readonly rejections: number
  readonly retryAfter: number | null
}

export interface Division {
  /** Rises when the limit or the division changes in a way that every holder has to take over. */
  readonly revision: number
  /** The limit in force, of configured ones the strictest; null while none is known. */
  readonly model: ModelState | null
  /** True if that limit is configured. */
  readonly isFixed: boolean
  /** The learned limit, also while another is configured. */
  readonly learned: ModelState | null
  readonly pool: Permits
  readonly debt: number
  readonly holders: Readonly<Record<string, Holder>>
  readonly pausedUntil: number
  readonly episode: SharedEpisode | null
  /** Rejections of requests that were sent before are explained. */
  readonly explainedUntil: number
}

export function emptyDivision(): Division {
  return {
    ...{ revision: 0, model: null, isFixed: false, learned: null, pool: [], debt: 0, holders: {} },
    ...{ pausedUntil: 0, episode: null, explainedUntil: 0 },
  }
}

/** The lowest of the limits that holders have configured; of equal rates, that of the shortest window. */
export function strictestOf({ holders }: Division): ModelState | null {
  const limits = Object.values(holders).flatMap(({ limit }) => limit ?? [])
  const rate = ({ count, window }: ModelState) => count / window
  return limits.toSorted((a, b) => rate(a) - rate(b) || a.window - b.window)[0] ?? null
}

/** How long a request counts, for those who did not send it. */
export function spanOf({ window, margin }: ModelState): number {
  return window + Math.min(window * 0.05, window * 0.02 + margin)
}

/** Without the holders that are gone. Without any holder, nothing of the previous ones holds but the learned limit. */
export function swept(division: Division, now: number): Division {
  const gone = Object.entries(division.holders).filter(([, { until }]) => until < now)
  if (gone.length === 0) return division
  const names = gone.map(([name]) => name)
  const holders = Object.fromEntries(
    Object.entries(division.holders).filter(([name]) => !names.includes(name)),
  )
  const freed = division.model === null ? [] : gone.flatMap(([, holder]) => freedBy(holder, division.model!))
  const rest = { ...division, holders }
  const isEmpty = Object.keys(holders).length === 0
  const open = isEmpty ? { pausedUntil: 0, episode: null } : {}
  return { ...withFreed(rest, freed), ...open }
}

/** The permits of a holder that vanished: it may have gone on at its full rate until the end of its lease. */
function freedBy(holder: Holder, model: ModelState): Permits {
  const span = spanOf(model)
  const lastWord = holder.until - LEASE
  const unheard = Math.min(holder.permits, Math.ceil((1.2 * holder.permits * LEASE) / model.window) + 1)
  const freed: [number, number][] = [[holder.until + span, unheard]]
  let left = holder.permits - unheard
  for (const [at, count] of holder.sends.toReversed()) {
    const part = Math.min(left, count)
    left -= part
    freed.push([at + span, part])
  }
  return [...freed, [lastWord, left]]
}

/** Permits return to the pool, after the debt is paid. */
export function withFreed(division: Division, freed: Permits): Division {
  let { debt } = division
  const left = freed.map(([at, count]) => {
    const paid = Math.min(debt, count)
    debt -= paid
    return [at, count - paid] as const
  })
  return { ...division, debt, pool: merged([...division.pool, ...left]) }
}

/** With another limit in force. */
export function withModel(division: Division, model: ModelState, isFixed: boolean, now: number): Division {
  const revision = division.revision + 1
  const learned = isFixed ? division.learned : model
  const next = { ...division, revision, model, isFixed, learned }
  if (division.model === null || division.model.window !== model.window) return divided(next, model, now)
  const more = model.count - division.model.count
  if (more >= 0) return withFreed(next, [[now, more]])
  let debt = division.debt - more
  const pool = division.pool.map(([at, count]) => {
    const paid = Math.min(debt, count)
    debt -= paid
    return [at, count - paid] as const
  })
  return { ...next, debt, pool: merged(pool) }
}

/** Without any limit: the one in force was configured, and those who had it are gone. */
export function withoutModel(division: Division): Division {
  const holders = mapped(division, (holder) => ({ ...holder, permits: 0 }))
  const open = { model: null, isFixed: false, pool: [], debt: 0, episode: null }
  return { ...division, ...open, holders, revision: division.revision + 1 }
}

/** Each holder has what it used in the last window, and the pool the rest. */
function divided(division: Division, model: ModelState, now: number): Division {
  let inUse = 0
  const holders = mapped(division, (holder) => {
    const permits = holder.sends.reduce((sum, [at, n]) => (at > now - spanOf(model) ? sum + n : sum), 0)
    inUse += permits
    return { ...holder, permits }
  })
  const rest = model.count - inUse
  return { ...division, holders, pool: rest > 0 ? [[now, rest]] : [], debt: Math.max(0, -rest) }
}

function mapped({ holders }: Division, change: (holder: Holder) => Holder): Division['holders'] {
  return Object.fromEntries(Object.entries(holders).map(([name, holder]) => [name, change(holder)]))
}

/** Their names in the order of joining. */
export function inOrder(holders: Division['holders']): readonly string[] {
  return Object.keys(holders).sort((a, b) => holders[a]!.since - holders[b]!.since || (a < b ? -1 : 1))
}

/**
 * How many permits each holder should have: what it wants, and as much as anyone else where that is too much; urgent
 * requests first, except that everybody keeps one.
 */
export function fairShares({ model, holders }: Division, now: number): ReadonlyMap<string, number> {
  const names = inOrder(holders)
  const first = names.length === 0 ? 0 : Math.floor(now / TURN) % names.length
  const inTurn = [...names.slice(first), ...names.slice(0, first)]
  const shares = new Map(inTurn.map((name) => [name, 0]))
  let left = model?.count ?? 0
  const give = (wanted: (holder: Holder) => number) => {
    for (;;) {
      const open = inTurn.filter((name) => shares.get(name)! < wanted(holders[name]!))
      if (open.length === 0 || left === 0) return
      const each = Math.max(1, Math.floor(left / open.length))
      for (const name of open) {
        const part = Math.min(each, left, wanted(holders[name]!) - shares.get(name)!)
        shares.set(name, shares.get(name)! + part)
        left -= part
      }
    }
  }
  const wants = (holder: Holder) => holder.wants ?? Number.POSITIVE_INFINITY
  give((holder) => Math.min(1, wants(holder)))
  give((holder) => Math.min(holder.urgent, wants(holder)))
  give(wants)
  return shares
}

/** What a holder is to do: give back this many permits, or take these from the pool; and whether anyone lacks some. */
export interface Exchange {
  readonly give: number
  readonly take: Permits
  readonly isShort: boolean
}

export function exchangeOf(division: Division, name: string, now: number): Exchange {
  const { holders, pool, debt } = division
  const own = holders[name]!.permits
  const shares = fairShares(division, now)
  const free = pool.reduce((sum, [, count]) => sum + count, 0)
  const lacking = Object.keys(holders).reduce(
    (sum, other) => sum + Math.max(0, other === name ? 0 : shares.get(other)! - holders[other]!.permits),
    0,
  )
  const fair = shares.get(name)!
  // Nobody else needs what the pool has: a process alone has all of the permits, whatever it wants.
  const mine = Math.max(fair, own + Math.max(0, free - lacking))
  if (own > fair) {
    const give = Math.min(own - fair, debt + Math.max(0, lacking - free))
    if (give > 0) return { give, take: [], isShort: lacking > 0 }
  }
  const take: [number, number][] = []
  let left = mine - own
  for (const [at, count] of pool) {
    const part = at <= now + AHEAD ? Math.min(left, count) : 0
    if (part > 0) take.push([at, part])
    left -= part
  }
  return { give: 0, take, isShort: own + take.reduce((sum, [, n]) => sum + n, 0) < fair }
}

/** Without these permits of the pool. */
export function withoutPermits(pool: Permits, taken: Permits): Permits {
  const left = new Map(pool.map(([at, count]) => [at, count]))
  for (const [at, count] of taken) left.set(at, left.get(at)! - count)
  return merged([...left])
}
