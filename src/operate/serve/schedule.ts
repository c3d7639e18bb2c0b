/**
 * The schedule of `serve`: runs a job at each time that a cron expression matches, and, if asked to, once for the times
 * that no process took.
 *
 * Invariant: a team has at most one run at a time. A team whose previous run is in progress skips the tick, which is
 * logged; the other teams run. A failed run does not end the schedule.
 */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { createTask, parse } from 'node-cron'
import type { Logger } from 'pino'
import { type Clock, lastTimeOf, openNotifier } from '../../core/clock.ts'
import { IntakeError, verdictOf } from '../../core/errors.ts'
import { boundedQuery } from '../../warehouse/bounded-queries.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'

export interface ScheduleOptions {
  readonly url: string
  /** In the time zone of the process (TZ). */
  readonly expression: string
  readonly job: string
  readonly teams: readonly string[]
  /** Times that no process took, because none was running or the warehouse was away. Default: `skip`. */
  readonly missed?: MissedTimes
  /** Runs the job for the teams whose tick this process took. Calls `onTeamEnded` for a team that ends before the others. */
  readonly run: (
    teams: readonly string[],
    signal: AbortSignal,
    onTeamEnded: (team: string) => void,
  ) => Promise<void>
  readonly clock: Clock
  readonly logger: Logger
}

/** `run`: the last of the missed times is run, once; `skip`: none is. */
export type MissedTimes = 'run' | 'skip'

export interface Schedule extends AsyncDisposable {
  next(): Date | null
  /** Aborts the runs in progress and waits for them to end. */
  close(): Promise<void>
}

/** Pauses between attempts to take a tick while the warehouse is unreachable. */
const PAUSES_MS = [1_000, 10_000, 60_000] as const

/** A busy process may start a tick this late; after that the tick is missed. */
const LATE_MS = 600_000
/** The pause between two looks for missed times. */
const LOOK_MS = 60_000

export function openSchedule(options: ScheduleOptions): Schedule {
  const { expression, job, clock, logger } = options
  const stop = new AbortController()
  /** Teams of each run in progress. */
  const running = new Map<Promise<void>, Set<string>>()
  /** By team: all times up to this one were taken, skipped, or found to be taken. */
  const judged = new Map<string, Date>()
  const judge = (teams: readonly string[], upTo: Date) => {
    for (const team of teams) judged.set(team, laterOf(judged.get(team), upTo))
  }
  const isBusy = (team: string) => [...running.values()].some((teams) => teams.has(team))
  const silent = { info() {}, warn() {}, error() {}, debug() {} }
  const task = createTask(expression, ({ date }) => begin(new Date(date)), {
    missedExecutionTolerance: LATE_MS,
    logger: silent,
  })
  async function begin(due: Date, teams = options.teams): Promise<void> {
    const busy = teams.filter(isBusy)
    const free = teams.filter((team) => !busy.includes(team))
    if (busy.length > 0)
      logger.warn({ job, due, teams: busy }, 'skipped: the previous run is still in progress')
    judge(busy, due)
    if (free.length === 0) return
    const unfinished = new Set(free)
    const run = runTick({ ...options, teams: free }, due, stop.signal, {
      onTaken: () => judge(free, due),
      onTeamEnded: (team) => unfinished.delete(team),
    }).finally(() => running.delete(run))
    running.set(run, unfinished)
    await run
  }
  const { hour: hours, minute: minutes } = parse(expression)
  const times = { hours, minutes, matches: (time: Date) => task.match(time) }
  const notifier = openNotifier(clock)
  /** The last time that the timers reported as missed; the process's clock may stand still while the machine sleeps. */
  let noticed: Date | undefined
  task.on('execution:missed', ({ date }) => {
    noticed = new Date(date)
    logger.warn({ job, due: noticed }, 'missed: the process was too busy to start it in time')
    notifier.notify()
  })
  let hasLooked = false

  async function runMissed(): Promise<void> {
    // A time that has just come is left to the task.
    const upTo = laterOf(noticed, new Date(clock.now() / 1000 - (hasLooked ? LATE_MS : 0)))
    const missedBy = (team: string, last = judged.get(team)) =>
      last === undefined ? null : lastTimeOf(times, laterOf(judged.get(team), last), upTo)
    const open = options.teams.filter((team) => !judged.has(team) || missedBy(team) !== null)
    if (open.every(isBusy)) return
    const last = await lastTaken(options)
    hasLooked = true
    if (stop.signal.aborted) return
    // The last time before `upTo` is the same for every team that missed one.
    const dues = new Map(open.map((team) => [team, missedBy(team, last.get(team))]))
    for (const [team, due] of dues) if (due === null) judge([team], upTo)
    const teams = open.filter((team) => dues.get(team) !== null && !isBusy(team))
    const due = dues.get(teams[0] ?? '')
    if (!due) return
    logger.warn({ job, due, teams }, 'no process ran this time: it is run now')
    void begin(due, teams)
  }

  async function lookForMissed(): Promise<void> {
    for (let isFailing = false; !stop.signal.aborted; ) {
      const seen = notifier.count
      try {
        await runMissed()
        isFailing = false
      } catch (error) {
        const { code, message } = warehouseError(error)
        if (!isFailing) logger.warn({ job, code }, `missed times are not known: ${message}`)
        isFailing = true
      }
      await notifier.wait(seen, LOOK_MS)
    }
  }

  void task.start()
  const looking = options.missed === 'run' ? lookForMissed() : null
  const close = async () => {
    stop.abort(new Error('the schedule is closed'))
    notifier.notify()
    await looking
    await task.destroy()
    await Promise.all(running.keys())
  }
  return { next: () => task.getNextRun(), close, [Symbol.asyncDispose]: close }
}

function laterOf(one: Date | undefined, other: Date): Date {
  return one !== undefined && one > other ? one : other
}

interface TickWatch {
  /** This process took the tick, or another had it. */
  onTaken(): void
  onTeamEnded(team: string): void
}

/** Never throws. */
async function runTick(
  options: ScheduleOptions,
  date: Date,
  signal: AbortSignal,
  { onTaken, onTeamEnded }: TickWatch,
): Promise<void> {
  const { job, teams, logger } = options
  const due = new Date(Math.floor(date.getTime() / 1000) * 1000)
  try {
    const taken = await takeWithRetries(options, { job, due, teams, by: randomUUID() }, signal)
    onTaken()
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

/** The newest tick of each team that any process took. */
async function lastTaken({
  url,
  job,
  teams,
}: Pick<ScheduleOptions, 'url' | 'job' | 'teams'>): Promise<ReadonlyMap<string, Date>> {
  return await boundedQuery({ url, purpose: 'schedule', milliseconds: LIMIT_MS }, async (db) => {
    const { rows } = await sql<{ name: string; due: Date }>`
      select team.name, max(tick.due_at) as due
      from intake_ops.schedule_ticks tick join intake.teams team using (team_id)
      where tick.job = ${job} and team.name = any (${teams}::text[]) group by team.name`.execute(db)
    return new Map(rows.map(({ name, due }) => [name, due]))
  })
}

/** Retention of ticks, except the newest of each team: longer than the clocks of two processes can differ. */
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
    await sql`
      delete from intake_ops.schedule_ticks tick where due_at < now() - ${KEPT}::interval and exists (
        select from intake_ops.schedule_ticks newer
        where (newer.team_id, newer.job) = (tick.team_id, tick.job) and newer.due_at > tick.due_at)`.execute(
      db,
    )
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
