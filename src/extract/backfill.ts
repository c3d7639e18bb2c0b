/**
 * One run: reads the requested streams of the requested teams, under each team's request budget.
 *
 *     locks ─► plan ─► this process and the workers execute slices ─► end of the run ─► summary
 *
 * Invariant: a run is planned only while every requested stream is locked; when a stream fails the others
 * continue, and the run's status reports it. A team whose service is slow, or does not answer, delays no other. If this
 * process is killed, workers continue the run, or the next run replaces it.
 */
import { sql } from 'kysely'
import { type WaitingQuestion, waitingQuestions } from '../analytics/classify.ts'
import { openLimiter } from '../api/budget/limiter.ts'
import { openNotifier } from '../core/clock.ts'
import { openFairQueue } from '../core/fair-queue.ts'
import { STOPPED, stopRun } from '../load/cancel-run.ts'
import { countWaiting } from '../load/dead-letters.ts'
import { openLoaders } from '../load/merge/loaders.ts'
import { unwatched } from '../load/run-progress.ts'
import { type RunStatus, storeFailure } from '../load/runs.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { type BackfillOptions, type NumberedTeam, numberTeams, openTeam } from './backfill-options.ts'
import { type AttachedRun, planRun, readTeams, statusOf, type TeamSummary } from './planned-backfill.ts'
import { runStream } from './run-stream.ts'
import { openWorker } from './work.ts'

export interface BackfillSummary {
  /** Null for a dry run. */
  readonly runId: string | null
  readonly status: RunStatus
  readonly teams: readonly TeamSummary[]
  /** Questions of these teams that were reworded, and whose answers wait for a decision (classify). */
  readonly waitingQuestions: readonly WaitingQuestion[]
}

/** Streams of a team that a dry run reads side by side; their requests share the team's budget. */
const STREAMS_OF_A_TEAM = 4
/**
 * Streams of all teams in this process: six teams at their full speed, and one stream each of twenty-four. Each has a session
 * and the pages it reads ahead, so this bounds both; with the loaders and what `serve` needs besides, a process stays far
 * below the hundred connections that Postgres permits by default.
 */
const STREAMS_AT_ONCE = 24
const LOOK_MS = 1_000
/** A run that can claim no slices for so long, or not see how far it is, ends. */
const TROUBLE_MS = 30_000
/** Loading connections of a dry run. */
const LOADERS = 8

export async function backfill(options: BackfillOptions): Promise<BackfillSummary> {
  await using control = await openSession({ url: options.url, purpose: 'backfill' })
  try {
    if (options.dry) return await dryRun(options, control)
    return await executeRun(options, control, await planRun(options, control))
  } catch (error) {
    throw warehouseError(error)
  }
}

/** Executes slices of the run, as other workers do, until it has ended. */
async function executeRun(
  options: BackfillOptions,
  control: Session,
  { runId, teams }: AttachedRun,
): Promise<BackfillSummary> {
  const { url, clock, random, logger, signal, version, onProgress } = options
  const notifier = openNotifier(clock)
  const wake = () => notifier.notify()
  let failure: unknown = null
  let wellAt = clock.now()
  const note = (thrown: unknown) => {
    const error = warehouseError(thrown)
    // Others have a slice that was lost, and temporary failures are retried.
    const mayPass = error.verdict === 'retry' && clock.now() - wellAt < TROUBLE_MS * 1_000
    if (error.code !== 'slice_lost' && !mayPass) failure ??= error
  }
  const onFailed = (thrown: unknown) => {
    note(thrown)
    wake()
  }
  const stop = () => {
    worker.cancel(STOPPED)
    wake()
  }
  // Without its session it has lost the lock of the run.
  let isLost = false
  const onEnd = () => {
    isLost = true
    wake()
  }
  control.client.on('end', onEnd)
  const sources = teams.map((team) => limited(team, options))
  const worker = openWorker({
    ...{ url, clock, random, logger, onProgress, teams: sources, concurrency: STREAMS_AT_ONCE },
    ...(version === undefined ? {} : { version }),
    ...{ runId, onFailed, onRunEnded: async () => wake() },
  })
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  const ended = new Set<string>()
  try {
    for (;;) {
      const seen = notifier.count
      if (failure !== null) throw failure
      const canClaim = worker.trouble() === null
      try {
        if (signal.aborted) await stopRun(control.db, runId, canClaim ? worker.cancel(STOPPED) : null)
        const { isOver, open } = await look(control, runId)
        for (const { name } of teams) {
          if (open.includes(name) || ended.has(name)) continue
          ended.add(name)
          options.onTeamEnded?.(name)
        }
        if (isOver) return await summaryOf(control, runId)
        if (canClaim) wellAt = clock.now()
      } catch (error) {
        if (isLost) throw error
        // Wakes nobody: looking again without a pause would let no event in, not even the end of the session.
        note(error)
      }
      if (failure === null) await notifier.wait(seen, LOOK_MS)
    }
  } catch (error) {
    await worker.close()
    await storeFailure(url, runId, signal.aborted ? 'interrupted' : 'failed', warehouseError(error))
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
    control.client.off('end', onEnd)
    await worker.close()
    for (const [at, { limiter }] of sources.entries())
      if (teams[at]!.limiter === undefined) await limiter.close()
  }
}

/** With the limiter that all streams of the team share. */
function limited(team: NumberedTeam, { budgets, clock, logger }: BackfillOptions) {
  const { concurrency, giveUpAfterMs, rateLimit } = team
  const open = () => {
    const store = budgets?.ofTeam(team.teamId)
    return openLimiter({ concurrency, giveUpAfterMs, rateLimit, store, clock, logger, team: team.name })
  }
  return { ...team, limiter: team.limiter ?? open() }
}

async function look({ db }: Session, runId: string) {
  const { rows } = await sql<{ isOver: boolean; open: string[] }>`
    select status <> 'running' as "isOver", array(
      select distinct team.name from intake_ops.slices slice join intake.teams team using (team_id)
      where slice.run_id = run.run_id and slice.state in ('pending', 'claimed')) as open
    from intake_ops.runs run where run_id = ${runId}`.execute(db)
  return rows[0]!
}

async function summaryOf({ db }: Session, runId: string): Promise<BackfillSummary> {
  const { rows } = await sql<{ status: RunStatus }>`
    select status from intake_ops.runs where run_id = ${runId}`.execute(db)
  const teams = await readTeams(db, runId)
  const names = new Set(teams.map(({ name }) => name))
  const waiting = await waitingQuestions(db)
  return {
    ...{ runId, status: rows[0]!.status, teams },
    waitingQuestions: waiting.filter(({ team }) => names.has(team)),
  }
}

/** Reads and compares; writes nothing. */
async function dryRun(options: BackfillOptions, control: Session): Promise<BackfillSummary> {
  const { url, clock, logger, signal, streams } = options
  const teams = await numberTeams(options, control)
  await using loaders = openLoaders({ url, clock, total: LOADERS })
  const queue = openFairQueue({ perTeam: STREAMS_OF_A_TEAM, total: STREAMS_AT_ONCE })
  const progress = unwatched(logger)
  const readTeam = async (team: NumberedTeam): Promise<TeamSummary> => {
    await using opened = openTeam(team, options)
    const of = { options, team: opened, loaders: loaders.ofTeam(team.teamId), runId: null, progress }
    const reports = await Promise.all(
      streams.map((stream) =>
        queue.add(team.teamId, async () => {
          return { stream: stream.name, report: await runStream({ ...of, stream }) }
        }),
      ),
    )
    const names = streams.map(({ name }) => name)
    const waiting = options.migrated ? await countWaiting(control.db, team.teamId, names) : 0
    return { name: team.name, streams: reports, waiting }
  }
  const read = teams.map(readTeam)
  // Nothing is closed that another team still uses.
  await Promise.allSettled(read)
  const summaries = await Promise.all(read)
  const status = signal.aborted ? 'interrupted' : statusOf(summaries)
  return { runId: null, status, teams: summaries, waitingQuestions: [] }
}
