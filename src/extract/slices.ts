/**
 * Slices of runs that workers execute: executes one slice, and closes a run, as its `Work` says.
 *
 * Invariant: the report and the state of a slice are stored in one transaction, which fails if another worker has taken the
 * slice (law 3). What closing a run does may be repeated: a worker that is killed there leaves it to another.
 */
import { type Kysely, sql } from 'kysely'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { StreamName } from '../core/envelope.ts'
import { IntakeError } from '../core/errors.ts'
import { isCanceled, openCancellation, whyStopped } from '../load/cancel-run.ts'
import { assertClaimed, type ClaimedClose, type ClaimedStream, settleClaimed } from '../load/claims.ts'
import { release } from '../load/lost-slices.ts'
import type { Loaders, OpenLoaders } from '../load/merge/loaders.ts'
import { openRunProgress, type RunProgress } from '../load/run-progress.ts'
import { type RunStatus, recordStream } from '../load/runs.ts'
import { NOTHING, settlePending, storeEnd } from '../load/slice.ts'
import { noteEnvironment } from '../load/teams.ts'
import { streamNamed } from '../streams/catalogue.ts'
import type { Stream } from '../streams/stream.ts'
import type { BoundedQueries } from '../warehouse/bounded-queries.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { type OpenTeam, openTeam, type TeamSource } from './backfill-options.ts'
import type { Progress } from './source.ts'

/** After so many workers that ended with it, a slice is given up: it may be what ends them. */
const MAX_TAKEOVERS = 10

export interface ExecuteOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly version?: string
  /** Called after each page and batch of a backfill. */
  readonly onProgress?: (team: string, stream: StreamName, progress: Progress) => void
  /** Called when a run has ended, before its last slice is settled: perhaps more than once. Must not throw. */
  readonly onRunEnded: (ended: EndedRun) => Promise<void>
}

export interface EndedRun {
  readonly runId: string
  readonly status: RunStatus
  readonly teams: readonly string[]
}

/** Runs work on the session of the worker, which holds its lock. Throws if that session is lost. */
export type Turn = <Result>(work: (session: Session) => Promise<Result>) => Promise<Result>

export interface Execution {
  readonly options: ExecuteOptions
  readonly turn: Turn
  readonly loaders: OpenLoaders
  /** Stores how far slices have come. */
  readonly bounded: BoundedQueries
  /** Of the worker; see `ConnectionOptions`. */
  readonly worker: string
  /** Aborts when the worker stops, and when it has lost the slice. */
  readonly signal: AbortSignal
}

/** A slice in the hands of a worker. */
export interface Part {
  readonly claimed: ClaimedStream
  readonly team: OpenTeam
  readonly stream: Stream
  readonly loaders: Loaders
  readonly progress: RunProgress
  readonly worker: string
  /** The logger and the signal of the slice. */
  readonly options: ExecuteOptions & { readonly signal: AbortSignal }
}

/** Stored when a slice is settled: the report as its result, and the rows that `store` writes. */
export interface Settling {
  readonly report: { readonly status: RunStatus; readonly note: string | null }
  readonly store: (db: Kysely<Warehouse>) => Promise<void>
}

export interface Outcome {
  readonly status: RunStatus
  readonly teams: readonly string[]
  /** Failures after the streams; a run with any has failed. */
  readonly failures?: readonly string[]
  /** Why analytics are not up to date; null if they are. */
  readonly stale: string | null
}

/** The work of slices of one kind, and of the slice that closes their run. */
export interface Work {
  /** A failure is in the report, unless the warehouse is lost. */
  readonly execute: (part: Part) => Promise<Settling>
  readonly close: (db: Kysely<Warehouse>, runId: string) => Promise<Outcome>
}

/** By the kind of the spec. */
export type Works = Readonly<Record<string, Work>>

/** Throws if the slice or the session is lost; nothing is stored then. */
export async function executeSlice(
  { options, turn, loaders, bounded, worker, signal }: Execution,
  claimed: ClaimedStream,
  source: TeamSource,
  work: Work,
): Promise<void> {
  const { url, clock, logger } = options
  const { runId, taken } = claimed
  const { teamId } = taken
  const stream = streamNamed(claimed.stream)!
  if (claimed.takeovers > MAX_TAKEOVERS) {
    const note = `${claimed.takeovers} workers ended while they read it: see their logs, and their memory`
    return await turn(({ db }) => settleFailed(db, claimed, note))
  }
  using cancellation = await turn((session) => openCancellation(session, { url, runId, signal }))
  const teams = [{ name: claimed.team, teamId }]
  await using progress = openRunProgress({ url, runId, teams, clock, logger, claimed, bounded })
  if (claimed.takeovers > 0) {
    progress.logger.warn(
      { team: claimed.team, stream: stream.name },
      'taken over from a worker that ended: the figures of the stream will be those of its last worker',
    )
  }
  const own = { ...options, logger: progress.logger, signal: cancellation.signal }
  await using team = openTeam({ ...source, teamId }, own)
  const part = { claimed, team, stream, progress, worker, options: own, loaders: loaders.ofTeam(teamId) }
  const { report, store } = await work.execute(part)
  const canceled = isCanceled(cancellation.signal)
  if (report.status === 'interrupted' && !canceled) {
    // The worker stops: others continue at once, and nothing of this one is stored from then on.
    await progress[Symbol.asyncDispose]()
    return await turn(({ db }) => release(db, claimed))
  }
  // Refused credentials, or no permitted request: every stream of the team would end so.
  const endsTeam = team.signal.aborted && !cancellation.signal.aborted
  try {
    await turn(({ db }) =>
      db.transaction().execute(async (transaction) => {
        await settleClaimed(transaction, claimed, canceled ? 'canceled' : 'done', report)
        await store(transaction)
        const { environment } = team.client
        if (environment !== null) await noteEnvironment(transaction, teamId, environment)
        if (canceled) {
          const note = `${whyStopped(cancellation.signal)}; the next run continues`
          await settlePending(transaction, { runId }, 'canceled', { status: 'interrupted', note })
        } else if (endsTeam) {
          await settlePending(transaction, { runId, which: sql`team_id = ${teamId}` }, 'done', {
            status: 'failed',
            note: report.note ?? '',
          })
        }
      }),
    )
  } catch (thrown) {
    const error = warehouseError(thrown)
    if (error.verdict === 'retry' || error.code === 'slice_lost') throw error
    // Another worker would fail too. The other streams of the run go on.
    own.logger.error({ team: team.name, stream: stream.name, code: error.code }, error.message)
    await turn(({ db }) => settleFailed(db, claimed, textOf(error), report))
  }
}

/** `counts`: the report of what was read, if anything. */
async function settleFailed(
  db: Kysely<Warehouse>,
  claimed: ClaimedStream,
  note: string,
  counts: object = {},
): Promise<void> {
  const { runId, stream, taken } = claimed
  const report = { ...NOTHING, ...counts, status: 'failed' as const, note }
  await db.transaction().execute(async (transaction) => {
    await settleClaimed(transaction, claimed, 'done', report)
    if (claimed.work === 'stream')
      await recordStream(transaction, { runId, teamId: taken.teamId, stream }, report)
  })
}

function textOf({ message, hint }: IntakeError): string {
  return hint === undefined ? message : `${message} — ${hint}`
}

/** Stores how the run ended, with the notes of its streams. Throws if the slice or the session is lost. */
export async function closeRun(
  { options, turn }: Execution,
  claimed: ClaimedClose,
  work: Work,
): Promise<void> {
  const { url, logger } = options
  const { runId } = claimed
  const { status, failures, teams } = await outcomeOf(url, runId, work).then(
    (outcome) => {
      if (outcome.stale !== null) logger.warn(outcome.stale)
      for (const failure of outcome.failures ?? []) logger.error({ run: runId }, failure)
      return { failures: [], ...outcome }
    },
    (thrown: unknown) => {
      const error: IntakeError = warehouseError(thrown)
      logger.error({ run: runId, code: error.code }, error.message)
      return { status: 'failed' as const, failures: [textOf(error)], teams: [] }
    },
  )
  await turn(({ db }) =>
    db.transaction().execute(async (transaction) => {
      await assertClaimed(transaction, claimed)
      await storeEnd(transaction, runId, status, failures)
    }),
  )
  await options.onRunEnded({ runId, status, teams })
  await turn(({ db }) =>
    db.transaction().execute((transaction) => settleClaimed(transaction, claimed, 'done', null)),
  )
}

async function outcomeOf(url: string, runId: string, { close }: Work) {
  await using session = await openSession({ url, purpose: 'end of a run' })
  const { db } = session
  const outcome = await close(db, runId)
  const { rows } = await sql<{ canceled: boolean }>`
    select canceled_by is not null as canceled from intake_ops.runs where run_id = ${runId}`.execute(db)
  return rows[0]?.canceled === true ? { ...outcome, status: 'interrupted' as const } : outcome
}

/** A statement of a worker that takes longer has lost the warehouse. */
const LIMIT_MS = 10_000
const SLOW = 'the warehouse did not answer in time'

export async function withinLimit<Result>(work: Promise<Result>, onLate: () => void): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      onLate()
      const hint = 'look at its load and its locks (pg_stat_activity)'
      reject(new IntakeError(SLOW, { code: 'warehouse_slow', verdict: 'retry', hint }))
    }, LIMIT_MS)
  })
  return await Promise.race([work, late]).finally(() => clearTimeout(timer))
}
