/**
 * After chaos: what is under way comes to its end, and each state of rest is judged.
 *
 * Invariant: a seed is at rest when every event was acknowledged, none is left to drain and no record to be asked for.
 */
import type { Scene } from './scene.ts'

/** More choices than any seed takes: one that takes as many goes round in circles. */
export const MOST_CHOICES = 20_000

/** Waits until nothing is to be done any more by those who take events. */
export async function comeToRest(scene: Scene): Promise<void> {
  const { plan, scheduler, teams, serves } = scene
  const areSent = () => teams.every(({ sender }) => sender.waiting === 0)
  const acknowledged = () => teams.reduce((sum, { sender }) => sum + sender.acknowledged.length, 0)
  for (let before = -1; before !== acknowledged() || (await isAnyAsked(scene)); ) {
    if (before >= 0) scheduler.leap(10_000)
    await scheduler.run(() => serves.ready.length === plan.serves && areSent(), MOST_CHOICES)
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
    await scheduler.run(() => idle === plan.serves && areSent(), MOST_CHOICES)
  }
}

async function isAnyAsked({ lane, teams }: Scene): Promise<boolean> {
  for (const { team } of teams) if ((await lane.asked(team)).size > 0) return true
  return false
}

/**
 * The runs by which everything is brought: one as usual first, in some seeds, and one that reads everything. A run that
 * was ended holds its streams until the server has noticed.
 */
export async function readAll({ plan, scheduler, warehouse, runs, teams }: Scene): Promise<void> {
  await scheduler.run(() => warehouse.forsaken === 0, MOST_CHOICES)
  for (const kind of plan.usualFirst ? (['new', 'everything'] as const) : (['everything'] as const)) {
    const run = runs.start(kind)
    scheduler.note(`a run that reads ${kind}`)
    await scheduler.run(() => run.over, MOST_CHOICES)
    for (const { checker } of teams) await checker.afterRun(kind, run.summary)
  }
}
