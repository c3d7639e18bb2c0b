/**
 * The schedule of `serve`: runs a job at each time that a cron expression matches.
 *
 * Invariant: a team has at most one run at a time. A team whose previous run is in progress skips the tick, which is
 * logged; the other teams run. A failed run does not end the schedule.
 */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { createTask } from 'node-cron'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { IntakeError, verdictOf } from '../../core/errors.ts'
import { boundedQuery } from '../../warehouse/bounded-queries.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'

export interface ScheduleOptions {
  readonly url: string
  /** In the time zone of the process (TZ). */
  readonly expression: string
  readonly job: string
  readonly teams: readonly string[]
  /** Runs the job for the teams whose tick this process took. Calls `onTeamEnded` for a team that ends before the others. */
  readonly run: (
    teams: readonly string[],
    signal: AbortSignal,
    onTeamEnded: (team: string) => void,
  ) => Promise<void>
  readonly clock: Clock
  readonly logger: Logger
}

export interface Schedule extends AsyncDisposable {
  next(): Date | null
  /** Aborts the runs in progress and waits for them to end. */
  close(): Promise<void>
}

/** Pauses between attempts to take a tick while the warehouse is unreachable. */
const PAUSES_MS = [1_000, 10_000, 60_000] as const

/** A busy process may start a tick this late; after that the tick is missed. */
const LATE_MS = 600_000

export function openSchedule(options: ScheduleOptions): Schedule {
  const { expression, job, logger } = options
  const stop = new AbortController()
  /** Teams of each run in progress. */
  const running = new Map<Promise<void>, Set<string>>()
  const silent = { info() {}, warn() {}, error() {}, debug() {} }
  const task = createTask(expression, ({ date }) => begin(new Date(date)), {
    missedExecutionTolerance: LATE_MS,
    logger: silent,
  })
  async function begin(due: Date): Promise<void> {
    const busy = options.teams.filter((team) => [...running.values()].some((teams) => teams.has(team)))
    const free = options.teams.filter((team) => !busy.includes(team))
    if (busy.length > 0)
      logger.warn({ job, due, teams: busy }, 'skipped: the previous run is still in progress')
    if (free.length === 0) return
    const unfinished = new Set(free)
    const run = runTick({ ...options, teams: free }, due, stop.signal, (team) =>
      unfinished.delete(team),
    ).finally(() => running.delete(run))
    running.set(run, unfinished)
    await run
  }
  task.on('execution:missed', ({ date }) =>
    logger.warn({ job, due: new Date(date) }, 'missed: the process was too busy to start it in time'),
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
    const taken = await takeWithRetries(options, { job, due, teams, by: randomUUID() }, signal)
    if (taken.length === 0) return logger.info({ job, due }, 'another process runs this tick')
    if (taken.length < teams.length)
      logger.info({ job, due, teams: taken }, 'another process runs the other teams')
    for (const team of teams) if (!taken.includes(team)) onTeamEnded(team)
    await options.run(taken, signal, onTeamEnded)
  } catch (error) {
    if (signal.aborted) return
    const { code, message, hint } = error instanceof IntakeError ? error : warehouseError(error)
    logger.error({ job, due, code, hint }, `the scheduled run did not start: ${message}`)
  }
}

async function takeWithRetries(
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

/** Retention of ticks: longer than the clocks of two processes can differ. */
const KEPT = '30 days'
const LIMIT_MS = 10_000

interface Tick {
  readonly job: string
  readonly due: Date
  readonly teams: readonly string[]
  /** A UUID of the caller. A repeated call with the same UUID, after a lost response, returns the same teams. */
  readonly by: string
}

/**
 * Assigns a tick of the schedule to the process that inserts its row. Returns the teams whose tick the caller took, and
 * deletes old ticks.
 *
 * Invariant: one process takes a tick for each team. The tick stays taken if that process ends, so that a run that a
 * person killed does not start again.
 */
export async function takeTick(url: string, { job, due, teams, by }: Tick): Promise<readonly string[]> {
  return await boundedQuery({ url, purpose: 'schedule', milliseconds: LIMIT_MS }, async (db) => {
    await sql`delete from intake_ops.schedule_ticks where due_at < now() - ${KEPT}::interval`.execute(db)
    const { rows } = await sql<{ name: string }>`
      with taken as (
        insert into intake_ops.schedule_ticks as stored (team_id, job, due_at, taken_by)
        select team_id, ${job}, ${due.toISOString()}::timestamptz, ${by}::uuid
        from intake.teams where name = any (${teams}::text[])
        order by team_id
        on conflict (team_id, job, due_at) do update set taken_by = excluded.taken_by
          where stored.taken_by = excluded.taken_by
        returning team_id
      )
      select team.name from taken join intake.teams team using (team_id)`.execute(db)
    return teams.filter((team) => rows.some(({ name }) => name === team))
  })
}
