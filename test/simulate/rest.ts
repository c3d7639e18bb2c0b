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
  const { plan, scheduler, sender, serves, lane, team } = scene
  for (let told = -1; told !== sender.acknowledged.length || (await lane.asked(team)).size > 0; ) {
    if (told >= 0) scheduler.leap(10_000)
    const isServed = () => serves.ready.length === plan.serves && sender.waiting === 0
    await scheduler.run(isServed, MOST_CHOICES)
    told = sender.acknowledged.length
    let idle = 0
    for (const { drain, refetcher } of serves.ready) {
      void drain
        .idle()
        .then(() => refetcher.idle())
        .then(() => {
          idle += 1
        })
    }
    await scheduler.run(() => idle === plan.serves && sender.waiting === 0, MOST_CHOICES)
  }
}

/**
 * The runs by which everything is brought: one as usual first, in some seeds, and one that reads everything. A run that
 * was ended holds its streams until the server has noticed.
 */
export async function readAll({ plan, scheduler, warehouse, runs, checker }: Scene): Promise<void> {
  await scheduler.run(() => warehouse.forsaken === 0, MOST_CHOICES)
  for (const kind of plan.usualFirst ? (['new', 'everything'] as const) : (['everything'] as const)) {
    const run = runs.start(kind)
    scheduler.note(`a run that reads ${kind}`)
    await scheduler.run(() => run.over, MOST_CHOICES)
    await checker.afterRun(kind, run.summary)
  }
}
