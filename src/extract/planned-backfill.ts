/**
 * The plan of a backfill, and what a worker does for its slices (slices.ts).
 *
 * Invariant: a run is planned with every stream that was asked for, or not at all; the streams are locked until the slices
 * are stored, which reserve them from then on.
 */
import { type Kysely, sql } from 'kysely'
import { refreshAnalytics } from '../analytics/refresh.ts'
import type { StreamName } from '../core/envelope.ts'
import { countWorkers } from '../load/claims.ts'
import { countWaiting } from '../load/dead-letters.ts'
import { matchQuestions } from '../load/exports/file-problems.ts'
import {
  markInterrupted,
  type RunStatus,
  recordStream,
  type StreamReport,
  unlockStreams,
} from '../load/runs.ts'
import { insertRun } from '../load/slice.ts'
import { streamNamed } from '../streams/catalogue.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { tryLock } from '../warehouse/locks.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import {
  type BackfillOptions,
  fingerprintOf,
  lockTeams,
  type NumberedTeam,
  numberTeams,
  placeHashOf,
} from './backfill-options.ts'
import type { WindowOptions } from './reading/window.ts'
import { runStream } from './run-stream.ts'
import type { Work, Works } from './slices.ts'

export interface StreamSummary {
  readonly stream: StreamName
  readonly report: StreamReport
}

export interface TeamSummary {
  readonly name: string
  readonly streams: readonly StreamSummary[]
  /** Dead letters of these streams that wait for a person. */
  readonly waiting: number
}

export interface PlannedRun {
  readonly runId: string
  readonly teams: readonly string[]
  /** With the one that closes the run. */
  readonly slices: number
  /** Processes that execute slices of any run now. */
  readonly workers: number
}

/** A run for which this process waits. */
export interface AttachedRun {
  readonly runId: string
  readonly teams: readonly NumberedTeam[]
}

/** Plans a run that only workers execute. */
export async function planBackfill(options: BackfillOptions): Promise<PlannedRun> {
  try {
    await using control = await openSession({ url: options.url, purpose: 'plan' })
    const { runId, teams } = await plan(options, control, { isDetached: true })
    const names = teams.map(({ name }) => name)
    const slices = options.streams.length * teams.length + 1
    return { runId, teams: names, slices, workers: await countWorkers(control.db) }
  } catch (error) {
    throw warehouseError(error)
  }
}

/** For this process too: the session has the lock of the run, which says that the process lives. */
export async function planRun(options: BackfillOptions, control: Session): Promise<AttachedRun> {
  await markInterrupted(control)
  return await plan(options, control, { isDetached: false })
}

async function plan(
  options: BackfillOptions,
  control: Session,
  { isDetached }: { readonly isDetached: boolean },
): Promise<AttachedRun> {
  const { streams, allowMassDelete, window } = options
  const teams = await lockTeams(options, control, await numberTeams(options, control))
  // By streams first: no team waits for all streams of another.
  const parts = streams.flatMap(({ name: stream }) =>
    teams.map((team) => ({
      ...{ teamId: team.teamId, stream },
      // Workers of a detached run may have other settings, and a new secret, but no other team of this name.
      source: isDetached ? placeHashOf(team) : fingerprintOf(team),
    })),
  )
  const requested = {
    streams: streams.map(({ name }) => name),
    teams: teams.map(({ name }) => name),
    allow_mass_delete: allowMassDelete,
    ...(isDetached ? { is_detached: true } : {}),
  }
  const spec: StreamSpec = { window, allow_mass_delete: allowMassDelete }
  const runId = await control.db.transaction().execute(async (transaction) => {
    const id = await insertRun(transaction, requested, spec, parts)
    if (!isDetached) await tryLock({ db: transaction }, 'run', id)
    return id
  })
  // The slices reserve the streams from now on.
  for (const team of teams) await unlockStreams(control, streams, team)
  return { runId, teams }
}

interface StreamSpec {
  readonly window: WindowOptions
  readonly allow_mass_delete: boolean
}

const BACKFILL: Work = {
  async execute({ claimed, team, stream, loaders, progress, worker, options }) {
    const { taken, runId, spec } = claimed
    const { window, allow_mass_delete: allowMassDelete } = spec as StreamSpec
    const run = {
      ...options,
      ...{ teams: [], streams: [stream], dry: false, migrated: true },
      onProgress: options.onProgress ?? (() => {}),
      ...{ allowMassDelete, window },
    }
    const of = { team, stream, loaders, progress, runId }
    const report = await runStream({ ...of, options: run, claimed: { taken, worker } })
    const key = { runId, teamId: team.teamId, stream: stream.name }
    return { report, store: (db) => recordStream(db, key, report) }
  },
  async close(db, runId) {
    const teams = await readTeams(db, runId)
    const failures: string[] = []
    for (const { teamId, name, streams } of teams) {
      if (!streams.some(({ stream }) => streamNamed(stream)?.reading?.kind === 'files')) continue
      try {
        // Forms may have been read after the files whose columns show their questions.
        await matchQuestions(db, teamId)
      } catch (error) {
        // A failure of one team is not that of the others.
        failures.push(`${name}: ${warehouseError(error).message}`)
      }
    }
    const stale = await refreshAnalytics(db)
    const status = failures.length > 0 ? 'failed' : statusOf(teams)
    return { status, failures, stale, teams: teams.map(({ name }) => name) }
  },
}

/** The stored reports, by team. */
export async function readTeams(
  db: Kysely<Warehouse>,
  runId: string,
): Promise<readonly (TeamSummary & { readonly teamId: number })[]> {
  const { rows } = await sql<{ team_id: number; name: string; streams: StreamSummary[] }>`
    select team_id, team.name, coalesce(json_agg(json_build_object('stream', stream, 'report', result) order by slice_id)
      filter (where result is not null), '[]') as streams
    from intake_ops.slices slice join intake.teams team using (team_id)
    where run_id = ${runId} group by team_id, team.name order by min(slice_id)`.execute(db)
  const teams: (TeamSummary & { readonly teamId: number })[] = []
  for (const { team_id: teamId, name, streams } of rows) {
    const waiting = await countWaiting(
      db,
      teamId,
      streams.map(({ stream }) => stream),
    )
    teams.push({ teamId, name, streams, waiting })
  }
  return teams
}

export function statusOf(teams: readonly TeamSummary[]): RunStatus {
  const reports = teams.flatMap(({ streams }) => streams.map(({ report }) => report))
  const has = (status: RunStatus) => reports.some((report) => report.status === status)
  if (has('interrupted')) return 'interrupted'
  if (has('failed')) return 'failed'
  const hasDeadLetters =
    teams.some(({ waiting }) => waiting > 0) || reports.some(({ deadLetters }) => deadLetters > 0)
  return has('needs_attention') || hasDeadLetters ? 'needs_attention' : 'succeeded'
}

/** Those that every worker knows. */
export const BACKFILLS: Works = { stream: BACKFILL, close: BACKFILL }
