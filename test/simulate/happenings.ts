/**
 * Offers everything that may happen next, in addition to the pending calls of the shipped code: events are sent and
 * processes restarted during the whole simulation; in chaos records change, runs start, days pass and processes end, as
 * often as planned.
 */
import { isRough, type Left, type Scene } from './scene.ts'
import type { Offer } from './scheduler.ts'
import { someParts } from './workers.ts'

const DAY_MS = 86_400_000

export function offersOf(scene: Scene): readonly Offer[] {
  const { phase, plan, serves } = scene
  if (phase === 'over') return []
  const offers: Offer[] = [...events(scene)]
  if (serves.started < plan.serves)
    offers.push({ label: 'serve starts', weight: 0.5, act: () => serves.start() })
  const { workers } = scene
  if (workers.started < plan.workers)
    offers.push({ label: 'a worker starts', weight: 0.5, act: () => workers.start() })
  if (isRough(scene)) offers.push(...troubles(scene))
  // Less than what a worker takes for a pause of Postgres; each process is called once for it, not each second.
  if (scene.hindrances.isAny)
    offers.push({ label: 'two seconds pass', weight: 0.25, act: () => scene.scheduler.leap(2_000) })
  if (scene.follower !== null) offers.push(...scene.follower.offers())
  return offers
}

/** Compared with sending each event on its own: a drain takes the events stored while it wrote the last batch. */
const POURING = 6

function events(scene: Scene): readonly Offer[] {
  const { plan, teams, left } = scene
  const keepsBack = plan.together > 1 && plan.script === null && isRough(scene)
  if (keepsBack && !scene.isPouring && left.changes > 0) {
    const due = teams.reduce((sum, { sender }) => sum + sender.due, 0)
    if (due < plan.together) return []
  }
  const offers = teams.flatMap(({ sender }) => sender.offers())
  scene.isPouring = keepsBack && offers.length > 0
  return scene.isPouring ? offers.map((offer) => ({ ...offer, weight: offer.weight * POURING })) : offers
}

/** True when everything planned has happened. */
export function isSpent({ left, runs, workers, hindrances }: Scene): boolean {
  const isPlayed = left.changes === 0 && left.backfills === 0 && left.leaps === 0 && left.planned === 0
  return isPlayed && workers.busy === 0 && !hindrances.isAny && !runs.isReading
}

function troubles(scene: Scene): readonly Offer[] {
  const { scheduler, choice, teams, runs, processes, left, workers, hindrances } = scene
  const offers: Offer[] = []
  const may = (what: keyof Left, label: string, weight: number, act: () => void) => {
    if (left[what] === 0) return
    const count = () => {
      left[what] -= 1
      act()
    }
    offers.push({ label, weight, act: count })
  }
  may('changes', 'something changes', 0.15, () => {
    const { changes, network } = teams.length === 1 ? teams[0]! : choice.one(teams)
    scheduler.note(`${network.name}${changes.next()}`)
  })
  if (!runs.isReading) {
    may('backfills', 'a backfill starts', 0.1, () => runs.start(choice.chance(0.3) ? 'everything' : 'new'))
    may('leaps', 'days pass', 0.05, () => scheduler.leap((1 + choice.below(6)) * DAY_MS))
  }
  const [victim] = processes.living.length === 0 ? [] : [choice.one(processes.living)]
  if (victim !== undefined) may('kills', `${victim.name} is ended`, 0.04, () => processes.kill(victim))
  if (workers.busy === 0)
    may('planned', 'a run is planned', 0.1, () => {
      workers.plan(choice.chance(0.3) ? 'everything' : 'new', someParts(choice))
    })
  if (workers.planned.length > 0) may('cancels', 'a run is canceled', 0.03, () => workers.cancel())
  if (workers.started > 0) may('closes', 'a worker is asked to end', 0.03, () => workers.close())
  const others = processes.living.filter(hindrances.isFree)
  if (others.length > 0)
    may('hindrances', 'a process is struck', 0.03, () => hindrances.strike(choice.one(others)))
  return offers
}
