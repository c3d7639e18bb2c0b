/**
 * One run: reads the requested streams of the requested teams in parallel, under each team's request budget.
 *
 *     locks ─► run row ─► streams through a fair queue ─► run_streams ─► status
 *
 * Invariant: a run starts only when it holds the lock of every requested stream; when a stream fails the others
 * continue, and the run's status reports it. Each team has its own place in the queue: a team whose service is slow, or
 * does not answer, delays no other.
 */
import { setMaxListeners } from 'node:events'
import { sql } from 'kysely'
import PQueue from 'p-queue'
import { type WaitingQuestion, waitingQuestions } from '../analytics/classify.ts'
import { refreshAnalytics } from '../analytics/refresh.ts'
import type { StreamName } from '../core/envelope.ts'
import { type FairQueue, openFairQueue } from '../core/fair-queue.ts'
import { countWaiting } from '../load/dead-letters.ts'
import { matchQuestions } from '../load/exports/file-problems.ts'
import { type OpenLoaders, openLoaders } from '../load/merge/loaders.ts'
import { openRunProgress, type RunProgress } from '../load/run-progress.ts'
import {
  beginRun,
  finishRun,
  type RunStatus,
  recordStream,
  type StreamReport,
  unlockStreams,
  withinRun,
} from '../load/runs.ts'
import { noteEnvironment } from '../load/teams.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import {
  type BackfillOptions,
  lockTeams,
  type NumberedTeam,
  numberTeams,
  type OpenTeam,
  openTeam,
} from './backfill-options.ts'
import { runStream } from './run-stream.ts'

export interface BackfillSummary {
  /** Null for a dry run. */
  readonly runId: string | null
  readonly status: RunStatus
  readonly teams: readonly TeamSummary[]
  /** Questions of these teams that were reworded, and whose answers wait for a decision (classify). */
  readonly waitingQuestions: readonly WaitingQuestion[]
}

export interface StreamSummary {
  readonly stream: StreamName
  readonly report: StreamReport
}

export interface TeamSummary {
  readonly name: string
  readonly streams: readonly StreamSummary[]
  /** Why the work after its streams failed; null where it did not. */
  readonly failure: string | null
  /** Dead letters of these streams that wait for a person. */
  readonly waiting: number
}

/** Streams of a team that are read side by side; their requests share the team's budget. */
const STREAMS_OF_A_TEAM = 4
/**
 * Streams of all teams: six teams at their full speed, and one stream each of twenty-four. Each has a session and the
 * pages it reads ahead, so this bounds both; with the loaders and what `serve` needs besides, a process stays far below
 * the hundred connections that Postgres permits by default.
 */
const STREAMS_AT_ONCE = 24
/** Loading connections of all teams: more batches than cores only wait for each other. */
const LOADERS = 8

export async function backfill(options: BackfillOptions): Promise<BackfillSummary> {
  const { url, clock, dry } = options
  const lost = new AbortController()
  // Every team adds a listener, however many there are.
  setMaxListeners(0, lost.signal)
  await using control = await openSession({ url, purpose: 'backfill' })
  try {
    const known = await numberTeams(options, control)
    const teams = dry ? known : await lockTeams(options, control, known)
    const requested = {
      streams: options.streams.map((stream) => stream.name),
      teams: teams.map((team) => team.name),
    }
    const runId = dry
      ? null
      : await beginRun(control, 'backfill', { ...requested, allow_mass_delete: options.allowMassDelete })
    return await withinRun({ url, runId, session: control, signal: options.signal }, async (signal) => {
      const watched = {
        url,
        teams,
        clock,
        logger: options.logger,
        runId: options.isWatched === true ? runId : null,
      }
      await using progress = openRunProgress(watched)
      await using loaders = openLoaders({
        url,
        clock,
        total: LOADERS,
        onRetry: (code, attempt) =>
          options.logger.warn({ code, attempt }, 'loading again after a temporary failure'),
      })
      const run: Run = {
        options: { ...options, signal, logger: progress.logger },
        progress,
        control,
        loaders,
        runId,
        queue: openFairQueue({ perTeam: STREAMS_OF_A_TEAM, total: STREAMS_AT_ONCE }),
        notebook: new PQueue({ concurrency: 1 }),
        lost,
      }
      const summaries = await allOf(
        teams.map((team) => runTeam(run, team)),
        (reason) => lost.abort(reason),
      )
      const stale = runId === null ? null : await refreshAnalytics(control.db)
      if (stale !== null) options.logger.warn(stale)
      const waiting = runId === null ? [] : await waitingQuestions(control.db)
      const status = signal.aborted ? 'interrupted' : statusOf(summaries)
      if (runId !== null) await finishRun(control.db, runId, status, notesOf(summaries))
      const names = new Set(teams.map(({ name }) => name))
      return {
        ...{ runId, status, teams: summaries },
        waitingQuestions: waiting.filter(({ team }) => names.has(team)),
      }
    })
  } catch (error) {
    throw warehouseError(error)
  }
}

interface Run {
  readonly options: BackfillOptions
  readonly control: Session
  readonly loaders: OpenLoaders
  readonly runId: string | null
  readonly progress: RunProgress
  /** Streams under way, of all teams. */
  readonly queue: FairQueue
  /** Streams end at any time; the one session that records them executes one statement at a time. */
  readonly notebook: PQueue
  /** Aborted with the reason when the run cannot go on: its session, and with it its locks, is gone. */
  readonly lost: AbortController
}

/** Returns all results. When one fails, stops the others and waits for them before their resources are closed. */
async function allOf<T>(work: readonly Promise<T>[], stop: (reason: unknown) => void): Promise<readonly T[]> {
  for (const each of work) each.catch((error: unknown) => stop(warehouseError(error)))
  await Promise.allSettled(work)
  return await Promise.all(work)
}

/** Throws only errors that end the run; when one team fails the others continue. */
async function runTeam(run: Run, team: NumberedTeam): Promise<TeamSummary> {
  const { options, control, runId, notebook } = run
  await using opened = openTeam(team, options)
  run.lost.signal.addEventListener('abort', () => opened.giveUp(run.lost.signal.reason))
  const streams: StreamSummary[] = []
  let waiting = 0
  let failure: string | null = null
  try {
    await readStreams(run, team, opened, streams)
    waiting = await finishTeam(run, team, opened)
  } catch (error) {
    // Without its session the run has lost its locks, and this throws.
    await notebook.add(() => sql`select 1`.execute(control.db))
    const { code, message } = warehouseError(error)
    options.logger.error({ team: team.name, code }, message)
    failure = message
  }
  if (runId !== null) await notebook.add(() => unlockStreams(control, options.streams, team))
  options.onTeamEnded?.(team.name)
  return { name: team.name, streams, waiting, failure }
}

async function readStreams(
  run: Run,
  team: NumberedTeam,
  opened: OpenTeam,
  done: StreamSummary[],
): Promise<void> {
  const { options, control, runId, queue, notebook, progress } = run
  const loaders = run.loaders.ofTeam(team.teamId)
  await allOf(
    options.streams.map((stream) =>
      queue.add(team.teamId, async () => {
        const report = await runStream({ options, team: opened, stream, loaders, runId, progress })
        const key = { teamId: team.teamId, stream: stream.name }
        if (runId !== null) await notebook.add(() => recordStream(control.db, { runId, ...key }, report))
        done.push({ stream: stream.name, report })
      }),
    ),
    opened.giveUp,
  )
  const place = (name: StreamName) => options.streams.findIndex((stream) => stream.name === name)
  done.sort((a, b) => place(a.stream) - place(b.stream))
}

/** Returns how many dead letters wait. */
async function finishTeam(
  { options, control, runId, notebook }: Run,
  team: NumberedTeam,
  { client }: OpenTeam,
): Promise<number> {
  // Forms may have been read after the files whose columns show their questions.
  if (runId !== null && options.streams.some((stream) => stream.reading?.kind === 'files')) {
    await notebook.add(() => matchQuestions(control.db, team.teamId))
  }
  const { environment } = client
  if (runId !== null && environment !== null) {
    await notebook.add(() => noteEnvironment(control.db, team.teamId, environment))
  }
  if (!options.migrated) return 0
  const names = options.streams.map((stream) => stream.name)
  return await notebook.add(() => countWaiting(control.db, team.teamId, names))
}

export function statusOf(teams: readonly TeamSummary[]): RunStatus {
  const statuses = teams.flatMap((team) => team.streams.map(({ report }) => report.status))
  if (statuses.includes('failed') || teams.some(({ failure }) => failure !== null)) return 'failed'
  const setAside = teams.some(
    (team) => team.waiting > 0 || team.streams.some(({ report }) => report.deadLetters > 0),
  )
  const attention = statuses.includes('needs_attention') || setAside
  return attention ? 'needs_attention' : 'succeeded'
}

function notesOf(teams: readonly TeamSummary[]): string | null {
  const notes = teams.flatMap(({ name, streams, failure }) => [
    ...streams.flatMap(({ stream, report }) =>
      report.note === null ? [] : [`${name}/${stream}: ${report.note}`],
    ),
    ...(failure === null ? [] : [`${name}: ${failure}`]),
  ])
  return notes.length === 0 ? null : notes.join('\n')
}
