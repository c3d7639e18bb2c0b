/**
 * The schedule of `serve`: runs a job at each moment that a cron expression names.
 *
 * Invariant: at most one run at a time; a moment that comes during a run is skipped, and said. A run that fails ends
 * nothing but itself.
 */
import { randomUUID } from 'node:crypto'
import { createTask } from 'node-cron'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { IntakeError, verdictOf } from '../core/errors.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { type Tick, takeTick } from './ticks.ts'

export interface ScheduleOptions {
  readonly url: string
  /** In the time zone of the process (TZ). */
  readonly expression: string
  readonly job: string
  readonly teams: readonly string[]
  /** Runs the job for those of the teams whose moment is ours. */
  readonly run: (teams: readonly string[], signal: AbortSignal) => Promise<void>
  readonly clock: Clock
  readonly logger: Logger
}

export interface Schedule extends AsyncDisposable {
  /** The next moment. */
  next(): Date | null
  /** Tells the run under way to stop and waits for it. */
  close(): Promise<void>
}

/** Pauses before a moment is tried again to be taken, where the warehouse is away. */
const PAUSES_MS = [1_000, 10_000, 60_000] as const

/** A moment that a busy process comes to late is run all the same; later than this it is missed. */
const LATE_MS = 600_000

export function openSchedule(options: ScheduleOptions): Schedule {
  const { expression, job, logger } = options
  const stop = new AbortController()
  let running: Promise<void> = Promise.resolve()
  const quiet = { info() {}, warn() {}, error() {}, debug() {} }
  const task = createTask(
    expression,
    ({ date }) => {
      running = runTick(options, new Date(date), stop.signal)
      return running
    },
    { noOverlap: true, missedExecutionTolerance: LATE_MS, logger: quiet },
  )
  task.on('execution:overlap', ({ date }) =>
    logger.warn({ job, due: new Date(date) }, 'skipped: the run before is still under way'),
  )
  task.on('execution:missed', ({ date }) =>
    logger.warn({ job, due: new Date(date) }, 'missed: the process did not get to it in time'),
  )
  void task.start()
  const close = async () => {
    stop.abort(new Error('the schedule is closed'))
    await task.destroy()
    await running
  }
  return { next: () => task.getNextRun(), close, [Symbol.asyncDispose]: close }
}

/** Never throws. */
async function runTick(options: ScheduleOptions, date: Date, signal: AbortSignal): Promise<void> {
  const { job, teams, logger } = options
  const due = new Date(Math.floor(date.getTime() / 1000) * 1000)
  try {
    const ours = await takeWithPatience(options, { job, due, teams, by: randomUUID() }, signal)
    if (ours.length === 0) return logger.info({ job, due }, 'another process runs this one')
    if (ours.length < teams.length) logger.info({ job, due, teams: ours }, 'another process runs the others')
    await options.run(ours, signal)
  } catch (error) {
    if (signal.aborted) return
    const { code, message, mend } = error instanceof IntakeError ? error : warehouseError(error)
    logger.error({ job, due, code, mend }, `the scheduled run did not come about: ${message}`)
  }
}

async function takeWithPatience(
  { url, clock }: ScheduleOptions,
  tick: Tick,
  signal: AbortSignal,
): Promise<readonly string[]> {
  for (const pause of PAUSES_MS) {
    try {
      return await takeTick(url, tick)
    } catch (error) {
      if (verdictOf(error) !== 'retry') throw error
      await clock.sleep(pause, signal)
    }
  }
  return await takeTick(url, tick)
}
