/**
 * Backfills that workers execute: plans a run, and says what a worker does for its slices (slices.ts).
 *
 * Invariant: a run is planned with every stream that was asked for, or not at all; the streams are locked until the slices
 * are stored, which reserve them from then on.
 */
import { sql } from 'kysely'
import { refreshAnalytics } from '../analytics/refresh.ts'
import { countWorkers } from '../load/claims.ts'
import { countWaiting } from '../load/dead-letters.ts'
import { matchQuestions } from '../load/exports/file-problems.ts'
import { recordStream } from '../load/runs.ts'
import { insertRun } from '../load/slice.ts'
import { STREAMS } from '../streams/catalogue.ts'
import { openSession } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { statusOf, type TeamSummary } from './backfill.ts'
import { type BackfillOptions, lockTeams, numberTeams } from './backfill-options.ts'
import type { WindowOptions } from './reading/window.ts'
import { runStream } from './run-stream.ts'
import type { Work, Works } from './slices.ts'

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
    const spec: StreamSpec = { window: options.window, allow_mass_delete: options.allowMassDelete }
    const runId = await control.db
      .transaction()
      .execute((transaction) => insertRun(transaction, requested, spec, parts))
    return { runId, teams: names, slices: parts.length, workers: await countWorkers(control.db) }
  } catch (error) {
    throw warehouseError(error)
  }
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
      ...{ teams: [], streams: [stream], dry: false, migrated: true, onProgress: () => {} },
      ...{ allowMassDelete, window },
    }
    const of = { team, stream, loaders, progress, runId }
    const report = await runStream({ ...of, options: run, claimed: { taken, worker } })
    const key = { runId, teamId: team.teamId, stream: stream.name }
    return { report, store: (db) => recordStream(db, key, report) }
  },
  async close(db, runId) {
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
    return { status: statusOf(teams), stale, teams: teams.map(({ name }) => name) }
  },
}

/** Those that every worker knows. */
export const BACKFILLS: Works = { stream: BACKFILL, close: BACKFILL }
