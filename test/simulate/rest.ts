/**
 * After chaos: work in progress ends, and each state of rest is checked.
 *
 * Invariant: a seed is at rest when every event was acknowledged, none is pending and no refetch is pending.
 */
import type { BackfillSummary } from '../../src/extract/backfill.ts'
import type { Follower } from './follower.ts'
import type { Kind } from './processes.ts'
import type { Scene } from './scene.ts'
import type { Actor } from './scheduler.ts'
import { ALL_PARTS } from './workers.ts'

/** More choices than any seed takes: one that takes as many is in a loop. */
export const MAX_CHOICES = 20_000

/** Waits until the receiving processes have nothing left to do. */
export async function comeToRest(scene: Scene): Promise<void> {
  const { plan, scheduler, teams, serves } = scene
  const areSent = () => teams.every(({ sender }) => sender.waiting === 0)
  const acknowledged = () => teams.reduce((sum, { sender }) => sum + sender.acknowledged.length, 0)
  for (let before = -1; before !== acknowledged() || (await isAnyAsked(scene)); ) {
    if (before >= 0) scheduler.leap(10_000)
    await scheduler.run(() => serves.ready.length === plan.serves && areSent(), MAX_CHOICES)
    before = acknowledged()
    let idle = 0
    for (const { drain, refetcher } of serves.ready) {
      void drain
        .idle()
        .then(() => refetcher.idle())
        .then(() => {
          idle += 1
        })
    }
    await scheduler.run(() => idle === plan.serves && areSent(), MAX_CHOICES)
  }
}

/** Milliseconds in which the workers end the runs that were planned, however little of them was done. */
const ENDING_MS = 300_000

/** Waits until every planned run has ended. */
export async function endPlanned({ scheduler, slices, first }: Scene): Promise<void> {
  const until = scheduler.now() + ENDING_MS * 1_000
  for (;;) {
    const unended = await slices.unended()
    if (unended.length === 0) break
    if (scheduler.now() > until) {
      for (const run of unended) first.checker.note(`a planned run does not end: ${run}`)
      return
    }
    const next = scheduler.now() + 2_000_000
    await scheduler.run(() => scheduler.now() >= next, MAX_CHOICES)
  }
  for (const fault of await slices.atRest()) first.checker.note(fault)
}

async function isAnyAsked({ lane, teams }: Scene): Promise<boolean> {
  for (const { team } of teams) if ((await lane.asked(team)).size > 0) return true
  return false
}

/**
 * The final runs: an ordinary one first, in some seeds, and a full scan. A run that was ended keeps its stream locks until
 * the server has noticed.
 */
export async function readAll(scene: Scene): Promise<void> {
  const { plan, scheduler, warehouse, teams } = scene
  await scheduler.run(() => warehouse.forsaken === 0, MAX_CHOICES)
  for (const kind of plan.usualFirst ? (['new', 'everything'] as const) : (['everything'] as const)) {
    scheduler.note(`a run that reads ${kind}`)
    const summary =
      plan.lastBy === 'workers' ? await readByWorkers(scene, kind) : await readAlone(scene, kind)
    for (const { checker } of teams) await checker.afterRun(kind, summary)
  }
}

async function readAlone({ scheduler, runs }: Scene, kind: Kind): Promise<BackfillSummary | null> {
  const run = runs.start(kind)
  await scheduler.run(() => run.over, MAX_CHOICES)
  return run.summary
}

async function readByWorkers(scene: Scene, kind: Kind): Promise<BackfillSummary | null> {
  const { scheduler, workers, slices } = scene
  const before = workers.planned.length
  workers.plan(kind, ALL_PARTS)
  await scheduler.run(() => workers.busy === 0, MAX_CHOICES)
  if (workers.planned.length === before) return null
  await endPlanned(scene)
  return await slices.summaryOf(workers.planned.at(-1)!)
}

/**
 * What the checker does not know is played last: a patient is erased and the tables are verified while records change, a run
 * reads them and events are drained; the reader of the change feed is ended among all that.
 */
export async function followToTheEnd(scene: Scene, follower: Follower): Promise<void> {
  const { choice, scheduler, teams, first, processes, runs, plan } = scene
  const { world } = first.service
  follower.mayBeEnded(3)
  for (let each = 0; each < 4; each++) scheduler.note(choice.one(teams).changes.next())
  const patient =
    world.patients.size === 0 ? null : world.patients.slice(choice.below(world.patients.size), 1)[0]!
  let open = 0
  const begin = (name: string, work: (actor: Actor) => Promise<void>) => {
    open += 1
    const actor = processes.start(name)
    void work(actor)
      .catch((error) => {
        scheduler.note(`${actor.name} failed: ${error.code ?? error.message}`)
        if (error.code === 'internal')
          first.checker.note(`${name} failed by a fault of its own: ${error.message}`)
      })
      .finally(() => {
        open -= 1
      })
  }
  const run = runs.start(choice.chance(0.5) ? 'everything' : 'new')
  begin('verify', processes.verify)
  if (patient !== null)
    begin('erase', (actor) => processes.erase(actor, { teamId: first.team.teamId, id: patient.id }))
  await scheduler.run(() => run.over && open === 0, MAX_CHOICES)
  if (plan.serves > 0) await comeToRest(scene)
  const { rounds } = follower
  await scheduler.run(() => follower.rounds > rounds, MAX_CHOICES)
  follower.stop()
  await scheduler.run(() => scene.warehouse.forsaken === 0, MAX_CHOICES)
  for (const key of await follower.differing())
    first.checker.note(`the copy of a reader of the change feed differs: ${key}`)
}
