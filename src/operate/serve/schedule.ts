/**
 * The schedule of `serve`: runs a job at each moment that a cron expression names.
 *
 * Invariant: at most one run of a team at a time; a team whose run before is still under way skips a moment that comes
 * meanwhile, which is logged, and the others are run. A run that fails ends nothing but itself.
 */
import { randomUUID } from 'node:crypto'
import { createTask } from 'node-cron'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { IntakeError, verdictOf } from '../../core/errors.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Tick, takeTick } from './ticks.ts'

export interface ScheduleOptions {
  readonly url: string
  /** In the time zone of the process (TZ). */
  readonly expression: string
  readonly job: string
  readonly teams: readonly string[]
  /** Runs the job for those of the teams whose moment is ours; calls `onTeamEnded` for a team that ends before the others. */
  readonly run: (
    teams: readonly string[],
    signal: AbortSignal,
    onTeamEnded: (team: string) => void,
  ) => Promise<void>
  readonly clock: Clock
  readonly logger: Logger
}

export interface Schedule extends AsyncDisposable {
  /** The next moment. */
  next(): Date | null
  /** Tells the runs under way to stop and waits for them. */
  close(): Promise<void>
}

/** Pauses before a moment is tried again to be taken, where the warehouse is away. */
const PAUSES_MS = [1_000, 10_000, 60_000] as const

/** A moment that a busy process comes to late is run all the same; later than this it is missed. */
const LATE_MS = 600_000

export function openSchedule(options: ScheduleOptions): Schedule {
  const { expression, job, logger } = options
  const stop = new AbortController()
  /** Teams of each run under way. */
  const running = new Map<Promise<void>, Set<string>>()
  const quiet = { info() {}, warn() {}, error() {}, debug() {} }
  const task = createTask(expression, ({ date }) => begin(new Date(date)), {
    missedExecutionTolerance: LATE_MS,
    logger: quiet,
  })
  async function begin(due: Date): Promise<void> {
    const busy = options.teams.filter((team) => [...running.values()].some((teams) => teams.has(team)))
    const free = options.teams.filter((team) => !busy.includes(team))
    if (busy.length > 0) logger.warn({ job, due, teams: busy }, 'skipped: the run before is still under way')
    if (free.length === 0) return
    const mine = new Set(free)
    const run = runTick({ ...options, teams: free }, due, stop.signal, (team) => mine.delete(team)).finally(
      () => running.delete(run),
    )
    running.set(run, mine)
    await run
  }
  task.on('execution:missed', ({ date }) =>
    logger.warn({ job, due: new Date(date) }, 'missed: the process did not get to it in time'),
  )
  void task.start()
  const close = async () => {
    stop.abort(new Error('the schedule is closed'))
    await task.destroy()
    await Promise.all(running.keys())
  }
  return { next: () => task.getNextRun(), close, [Symbol.asyncDispose]: close }
}

/** Never throws. */
async function runTick(
  options: ScheduleOptions,
  date: Date,
  signal: AbortSignal,
  onTeamEnded: (team: string) => void,
): Promise<void> {
  const { job, teams, logger } = options
  const due = new Date(Math.floor(date.getTime() / 1000) * 1000)
  try {
    const ours = await takeWithPatience(options, { job, due, teams, by: randomUUID() }, signal)
    if (ours.length === 0) return logger.info({ job, due }, 'another process runs this one')
    if (ours.length < teams.length) logger.info({ job, due, teams: ours }, 'another process runs the others')
    for (const team of teams) if (!ours.includes(team)) onTeamEnded(team)
    await options.run(ours, signal, onTeamEnded)
  } catch (error) {
    if (signal.aborted) return
    const { code, message, hint } = error instanceof IntakeError ? error : warehouseError(error)
    logger.error({ job, due, code, hint }, `the scheduled run did not come about: ${message}`)
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
