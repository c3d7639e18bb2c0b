/** The runs of `backfill`, one at a time, and how each ended. */
import type { BackfillSummary } from '../../src/extract/backfill.ts'
import type { Processes } from './processes.ts'
import type { Actor, Scheduler } from './scheduler.ts'

export interface Run {
  readonly actor: Actor
  over: boolean
  /** Null while it runs, and if it failed as a whole. */
  summary: BackfillSummary | null
}

export interface Runs {
  /** True while one runs. */
  readonly isReading: boolean
  start(kind: 'everything' | 'new'): Run
}

export function openRuns(options: {
  readonly processes: Processes
  readonly scheduler: Scheduler
  readonly note: (fault: string) => void
}): Runs {
  const { processes, scheduler, note } = options
  let current: Run | null = null
  return {
    get isReading() {
      return current !== null && !current.over && current.actor.alive
    },
    start(kind) {
      const actor = processes.start('backfill')
      const run: Run = { actor, over: false, summary: null }
      void processes.backfill(actor, kind).then(
        (summary) => {
          run.over = true
          run.summary = summary
          scheduler.note(`${actor.name}: ${summary.status}`)
        },
        (error) => {
          run.over = true
          scheduler.note(`${actor.name} failed: ${error.code ?? error.message}`)
          if (error.code === 'internal') note(`a run failed by a fault of its own: ${error.message}`)
        },
      )
      current = run
      return run
    },
  }
}
