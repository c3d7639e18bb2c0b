/**
 * Slices of runs that workers execute: plans a run, executes one slice, and closes the run.
 *
 * Invariant: a run is planned with every stream that was asked for, or not at all; the streams are locked until the slices are
 * stored, which reserve them from then on. The report and the state of a slice are stored in one transaction, which fails if another worker has taken the
 * slice (law 3). What closing a run does may be repeated: a worker that is killed there leaves it to another.
 */
import { sql } from 'kysely'
import type { Logger } from 'pino'
import { refreshAnalytics } from '../analytics/refresh.ts'
import type { Clock } from '../core/clock.ts'
import type { IntakeError } from '../core/errors.ts'
import { isCanceled, openCancellation, whyStopped } from '../load/cancel-run.ts'
import {
  assertClaimed,
  type ClaimedClose,
  type ClaimedStream,
  release,
  settleClaimed,
} from '../load/claims.ts'
import { countWaiting } from '../load/dead-letters.ts'
import { matchQuestions } from '../load/exports/file-problems.ts'
import type { OpenLoaders } from '../load/merge/loaders.ts'
import { openRunProgress } from '../load/run-progress.ts'
import { recordStream } from '../load/runs.ts'
import { insertRun, LIVE_WORKERS, NOTHING, settlePending, storeEnd } from '../load/slice.ts'
import { noteEnvironment } from '../load/teams.ts'
import { STREAMS } from '../streams/catalogue.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { statusOf, type TeamSummary } from './backfill.ts'
import {
  type BackfillOptions,
  lockTeams,
  numberTeams,
  openTeam,
  type TeamSource,
} from './backfill-options.ts'
import { runStream } from './run-stream.ts'

/** After so many workers that ended with it, a slice is given up: it may be what ends them. */
const MAX_TAKEOVERS = 10

export interface PlannedRun {
  readonly runId: string
  readonly teams: readonly string[]
  /** Without the one that closes the run. */
  readonly slices: number
  /** Processes that execute slices now. */
  readonly workers: number
}

export async function planBackfill(options: BackfillOptions): Promise<PlannedRun> {
  try {
    await using control = await openSession({ url: options.url, purpose: 'plan' })
    const teams = await lockTeams(options, control, await numberTeams(options, control))
    // By streams first: no team waits for all streams of another.
    const parts = options.streams.flatMap(({ name: stream }) =>
      teams.map(({ teamId }) => ({ teamId, stream })),
    )
    const names = teams.map(({ name }) => name)
    const requested = {
      streams: options.streams.map((stream) => stream.name),
      teams: names,
      allow_mass_delete: options.allowMassDelete,
      is_detached: true,
    }
    const spec = { window: options.window, allow_mass_delete: options.allowMassDelete }
    const runId = await control.db
      .transaction()
      .execute((transaction) => insertRun(transaction, requested, spec, parts))
    const { rows } = await sql<{ workers: number }>`select ${LIVE_WORKERS} as workers`.execute(control.db)
    return { runId, teams: names, slices: parts.length, workers: rows[0]!.workers }
  } catch (error) {
    throw warehouseError(error)
  }
}

export interface ExecuteOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly version?: string
  /** Called when a run has ended, before its last slice is settled: perhaps more than once. Must not throw. */
  readonly onRunEnded: (teams: readonly string[]) => Promise<void>
}

/** Runs work on the session of the worker, which holds its lock. Throws if that session is lost. */
export type Turn = <Result>(work: (session: Session) => Promise<Result>) => Promise<Result>

export interface Execution {
  readonly options: ExecuteOptions
  readonly turn: Turn
  readonly loaders: OpenLoaders
  /** Of the worker; see `ConnectionOptions`. */
  readonly worker: string
  /** Aborts when the worker stops, and when it has lost the slice. */
  readonly signal: AbortSignal
}

/** Throws if the slice or the session is lost; nothing is stored then. */
export async function executeStream(
  { options, turn, loaders, worker, signal }: Execution,
  claimed: ClaimedStream,
  source: TeamSource,
): Promise<void> {
  const { url, clock, random, logger } = options
  const { runId, taken, spec } = claimed
  const { teamId } = taken
  const stream = STREAMS.find(({ name }) => name === claimed.stream)!
  const key = { runId, teamId, stream: stream.name }
  if (claimed.takeovers > MAX_TAKEOVERS) {
    const note = `${claimed.takeovers} workers ended while they read it: see their logs, and their memory`
    const report = { ...NOTHING, status: 'failed' as const, note }
    return await turn(({ db }) =>
      db.transaction().execute(async (transaction) => {
        await settleClaimed(transaction, claimed, 'done', report)
        await recordStream(transaction, key, report)
      }),
    )
  }
  using cancellation = await turn((session) => openCancellation(session, { url, runId, signal }))
  const teams = [{ name: claimed.team, teamId }]
  await using progress = openRunProgress({ url, runId, teams, clock, logger, isShared: true })
  const run = {
    ...{ url, clock, random, logger: progress.logger, signal: cancellation.signal },
    ...(options.version === undefined ? {} : { version: options.version }),
    ...{ teams: [source], streams: [stream], dry: false, migrated: true, onProgress: () => {} },
    allowMassDelete: spec.allow_mass_delete,
    window: spec.window,
  }
  await using team = openTeam({ ...source, teamId }, run)
  const report = await runStream({
    ...{ options: run, team, stream, runId, progress },
    loaders: loaders.ofTeam(teamId),
    claimed: { taken, worker },
  })
  const canceled = isCanceled(cancellation.signal)
  // The worker stops: others continue at once.
  if (report.status === 'interrupted' && !canceled) return await turn(({ db }) => release(db, claimed))
  // Refused credentials, or no permitted request: every stream of the team would end so.
  const endsTeam = team.signal.aborted && !cancellation.signal.aborted
  await turn(({ db }) =>
    db.transaction().execute(async (transaction) => {
      await settleClaimed(transaction, claimed, canceled ? 'canceled' : 'done', report)
      await recordStream(transaction, key, report)
      const { environment } = team.client
      if (environment !== null) await noteEnvironment(transaction, teamId, environment)
      if (canceled) {
        const note = `${whyStopped(cancellation.signal)}; the next run continues`
        await settlePending(transaction, { runId }, 'canceled', { status: 'interrupted', note })
      } else if (endsTeam) {
        await settlePending(transaction, { runId, teamId }, 'done', {
          status: 'failed',
          note: report.note ?? '',
        })
      }
    }),
  )
}

/** As a backfill ends: questions of files, analytics, status and notes. Throws if the slice or the session is lost. */
export async function closeRun({ options, turn }: Execution, claimed: ClaimedClose): Promise<void> {
  const { url, logger } = options
  const { runId } = claimed
  const { status, failures, teams } = await outcomeOf(url, runId).then(
    (outcome) => {
      if (outcome.stale !== null) logger.warn(outcome.stale)
      return { ...outcome, failures: [] }
    },
    (thrown: unknown) => {
      const error: IntakeError = warehouseError(thrown)
      logger.error({ run: runId, code: error.code }, error.message)
      const failure = error.hint === undefined ? error.message : `${error.message} — ${error.hint}`
      return { status: 'failed', failures: [failure], teams: [] }
    },
  )
  await turn(({ db }) =>
    db.transaction().execute(async (transaction) => {
      await assertClaimed(transaction, claimed)
      await storeEnd(transaction, runId, status, failures)
    }),
  )
  logger.info({ run: runId, status }, 'run ended')
  await options.onRunEnded(teams)
  await turn(({ db }) =>
    db.transaction().execute((transaction) => settleClaimed(transaction, claimed, 'done', null)),
  )
}

async function outcomeOf(url: string, runId: string) {
  await using session = await openSession({ url, purpose: 'end of a run' })
  const { db } = session
  const { rows } = await sql<{ team_id: number; name: string; streams: TeamSummary['streams'] }>`
    select team_id, team.name, json_agg(json_build_object('stream', stream, 'report', result) order by slice_id) as streams
    from intake_ops.slices slice join intake.teams team using (team_id)
    where run_id = ${runId} group by team_id, team.name order by min(slice_id)`.execute(db)
  const teams: TeamSummary[] = []
  for (const { team_id: teamId, name, streams } of rows) {
    const names = streams.map(({ stream }) => stream)
    // Forms may have been read after the files whose columns show their questions.
    if (STREAMS.some(({ name, reading }) => reading?.kind === 'files' && names.includes(name)))
      await matchQuestions(db, teamId)
    teams.push({ name, streams, waiting: await countWaiting(db, teamId, names), failure: null })
  }
  const stale = await refreshAnalytics(db)
  const { rows: runs } = await sql<{ canceled: boolean }>`
    select canceled_by is not null as canceled from intake_ops.runs where run_id = ${runId}`.execute(db)
  const status = runs[0]?.canceled === true ? 'interrupted' : statusOf(teams)
  return { status, stale, teams: teams.map(({ name }) => name) }
}
