/**
 * Rebuilds `intake` from intake_raw, without requests to the service.
 *
 * Invariant: afterwards the tables of a stream are as after loading its records again: rows without a record are removed;
 * versions, tombstones, hashes, problems and origins are those of the records. A replay is idempotent, and one that was
 * stopped is completed by the next.
 */

import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { StreamName } from '../../core/envelope.ts'
import { selectTeams } from '../../core/which-team.ts'
import { matchQuestions } from '../../load/exports/match-questions.ts'
import { type Loaders, openLoaders } from '../../load/loaders.ts'
import { beginRun, finishRun, type RunStatus, withinRun } from '../../load/runs.ts'
import { lockStreams } from '../../load/stream-locks.ts'
import type { Stream } from '../../streams/stream.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { readTeams, type WarehouseTeam } from '../../warehouse/teams.ts'
import { type Replayed, replayStream } from './replay-stream.ts'

export interface ReplayOptions {
  /** Of the warehouse. */
  readonly url: string
  /** One team of the warehouse; all of them when left out. */
  readonly team?: string
  readonly streams: readonly Stream[]
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly onProgress: (team: string, stream: StreamName, records: number) => void
}

export interface ReplayReport extends Replayed {
  readonly status: RunStatus
  readonly seconds: number
  /** Why it failed or needs a person; null when it succeeded. */
  readonly note: string | null
}

export interface ReplaySummary {
  readonly runId: string
  readonly status: RunStatus
  readonly teams: readonly {
    readonly name: string
    readonly streams: readonly { readonly stream: StreamName; readonly report: ReplayReport }[]
  }[]
}

export async function replay(options: ReplayOptions): Promise<ReplaySummary> {
  const { url, clock, logger, streams, signal } = options
  await using session = await openSession({ url, purpose: 'replay' })
  try {
    const teams = await teamsToReplay(session, options.team)
    await lockStreams(session, streams, teams)
    const requested = { streams: streams.map(({ name }) => name), teams: teams.map(({ name }) => name) }
    const runId = await beginRun(session, 'replay', requested)
    return await withinRun({ url, runId, signal }, async () => {
      await using loaders = openLoaders({
        url,
        clock,
        onRetry: (code, attempt) =>
          logger.warn({ code, attempt }, 'rewriting again after a temporary failure'),
      })
      const done: { name: string; streams: { stream: StreamName; report: ReplayReport }[] }[] = []
      for (const team of teams) {
        const reports: { stream: StreamName; report: ReplayReport }[] = []
        for (const stream of streams) {
          reports.push({
            stream: stream.name,
            report: await replayed(options, session, loaders, team, stream),
          })
        }
        // Columns of exports refer to questions of forms, and either may have been rebuilt.
        if (!options.signal.aborted) await matchQuestions(session.db, team.teamId)
        done.push({ name: team.name, streams: reports })
      }
      const status = statusOf(done.flatMap((team) => team.streams.map(({ report }) => report.status)))
      await finishRun(session.db, runId, status, notesOf(done))
      return { runId, status, teams: done }
    })
  } catch (error) {
    throw warehouseError(error)
  }
}

async function replayed(
  { clock, signal, logger, onProgress }: ReplayOptions,
  session: Session,
  loaders: Loaders,
  { teamId, name }: WarehouseTeam,
  stream: Stream,
): Promise<ReplayReport> {
  const begun = clock.now()
  const report = (status: RunStatus, counts: Replayed, note: string | null): ReplayReport => {
    return { status, ...counts, seconds: Math.round((clock.now() - begun) / 1000) / 1000, note }
  }
  const none: Replayed = { records: 0, rewritten: 0, removed: 0, refused: 0 }
  try {
    const onRecords = (records: number) => onProgress(name, stream.name, records)
    const counts = await replayStream({ session, loaders, teamId, stream, signal, onProgress: onRecords })
    if (counts.refused === 0) return report('succeeded', counts, null)
    const note = `${counts.refused} of its records could not be rebuilt; their rows are unchanged`
    return report('needs_attention', counts, note)
  } catch (error) {
    if (signal.aborted) return report('interrupted', none, 'stopped by a signal; run it again to complete it')
    const failure = warehouseError(error)
    const note = failure.hint === undefined ? failure.message : `${failure.message} — ${failure.hint}`
    logger.error({ team: name, stream: stream.name, code: failure.code }, note)
    return report('failed', none, note)
  }
}

export function statusOf(statuses: readonly RunStatus[]): RunStatus {
  const worst = (['interrupted', 'failed', 'needs_attention'] as const).find((each) =>
    statuses.includes(each),
  )
  return worst ?? 'succeeded'
}

function notesOf(teams: ReplaySummary['teams']): string | null {
  const notes = teams.flatMap(({ name, streams }) =>
    streams.flatMap(({ stream, report }) =>
      report.note === null ? [] : [`${name}/${stream}: ${report.note}`],
    ),
  )
  return notes.length === 0 ? null : notes.join('\n')
}

/** The team that `--team` names, or all, by number; removed teams are none. Throws `UsageError`. */
export async function teamsToReplay({ db }: Session, name?: string): Promise<readonly WarehouseTeam[]> {
  const teams = (await readTeams(db)).filter(({ isRemoved }) => !isRemoved)
  return [...selectTeams(teams, name, 'warehouse')].sort((a, b) => a.teamId - b.teamId)
}
