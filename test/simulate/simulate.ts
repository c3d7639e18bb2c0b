/**
 * One seed: a world, a warehouse, the shipped code between them, and faults; then rest, and checks.
 *
 *     chaos: changes, events, backfills, faults, ends of processes
 *       └─► rest: no faults, every event delivered and drained, every refetch made ─► acknowledged states are stored
 *             └─► an ordinary run ─► every submission is stored
 *                   └─► a full scan ─► the tables equal the source
 *                         └─► every fourth seed: a load, a drain, a verification and an erasure at once ─► the copy of a
 *                             reader of the change feed equals the tables
 *
 * Invariant: everything follows from the seed.
 */
import { isSpent, offersOf } from './happenings.ts'
import type { Lane } from './lane.ts'
import type { Plan } from './plan.ts'
import { type Playing, playScript } from './playing.ts'
import { comeToRest, endPlanned, followToTheEnd, MAX_CHOICES, readAll } from './rest.ts'
import { openScene, type Scene } from './scene.ts'

export interface Outcome {
  readonly seed: number
  /** Empty when all is well. */
  readonly faults: readonly string[]
  readonly trace: readonly string[]
  readonly plan: Plan
  readonly choices: number
  /** Batches of the drain with events of several teams. */
  readonly mixed: number
  /** Transactions of the reader of the change feed, and how often it began. */
  readonly followed: { readonly rounds: number; readonly starts: number }
}

export async function simulate(seed: number, lane: Lane): Promise<Outcome> {
  const scene = await openScene(seed, lane)
  const { plan, scheduler, teams, processes, drained } = scene
  const script = playScript(scene)
  scheduler.offer(() => (scene.phase === 'chaos' ? script.offers() : []))
  scheduler.offer(() => offersOf(scene))
  try {
    await play(scene, script)
  } catch (error) {
    scene.first.checker.note(error instanceof Error ? error.message : String(error))
  } finally {
    scene.phase = 'over'
    scene.hindrances.endAll()
    processes.close()
    await scheduler.run(() => lane.backends.taken === 0, MAX_CHOICES)
    if (plan.workers > 0) {
      for (const fault of await scene.slices.look()) scene.first.checker.note(fault)
      await scene.slices.forget()
    }
  }
  const { trace } = scheduler
  const faults = teams.flatMap(({ checker }, place) =>
    checker.faults.map((fault) => (teams.length === 1 ? fault : `team ${place + 1}: ${fault}`)),
  )
  const { rounds, starts } = scene.follower ?? { rounds: 0, starts: 0 }
  const followed = { rounds, starts }
  return { seed, plan, faults, trace, choices: trace.length, mixed: drained.mixed, followed }
}

async function play(scene: Scene, script: Playing): Promise<void> {
  const { plan, scheduler, teams, left, hindrances } = scene
  await until(scene, script, () => left.changes <= plan.changes / 2)
  for (const { checker } of teams) await checker.look('in the midst')
  await until(scene, script, () => isSpent(scene) && script.isOver)
  scene.phase = 'rest'
  scene.dawdler = null
  hindrances.endAll()
  scheduler.note('rest')
  // The service has finished its own work.
  scheduler.leap(60_000)
  for (const { checker } of teams) await checker.look('in between')
  if (plan.workers > 0) await endPlanned(scene)
  if (plan.serves > 0) {
    await comeToRest(scene)
    for (const { checker } of teams) await checker.afterRest()
  }
  await readAll(scene)
  if (scene.follower !== null) await followToTheEnd(scene, scene.follower)
}

/** Each night of a script is checked on the way. */
async function until({ scheduler, teams }: Scene, script: Playing, isReached: () => boolean): Promise<void> {
  for (;;) {
    await scheduler.run(() => script.night !== null || isReached(), MAX_CHOICES)
    if (script.night === null) return
    for (const { checker } of teams) await checker.afterNight(script.night)
    script.judged()
  }
}
