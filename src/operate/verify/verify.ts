/**
 * Reads the source again and compares the tables with what a fresh load of it would write.
 *
 * Invariant: a stream that cannot be read leaves the others to be compared, and the run says so. Comparing takes no
 * lock and holds nothing up; a repair holds the locks of its streams from the start, as any run that writes them.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { StreamName } from '../../core/streams.ts'
import { type OpenTeam, openTeam, type TeamSource } from '../../extract/backfill-options.ts'
import { emptyTally, type Progress, type Source } from '../../extract/source.ts'
import { loadBatch } from '../../load/load.ts'
import { type Loaders, openLoaders } from '../../load/loaders.ts'
import { beginRun, finishRun, type RunStatus } from '../../load/runs.ts'
import { takeSlice } from '../../load/slice.ts'
import { lockStreams } from '../../load/stream-locks.ts'
import { teamIdOf } from '../../load/teams.ts'
import type { Stream } from '../../streams/stream.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { statusOf } from '../replay/replay.ts'
import { isEqual, isMended, storeVerified } from './store.ts'
import { type RepairOptions, type StreamVerified, verifyStream } from './verify-stream.ts'

export interface VerifyOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly teams: readonly TeamSource[]
  readonly streams: readonly Stream[]
  /** Null to compare only. */
  readonly repair: RepairOptions | null
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly version?: string
  readonly onProgress: (team: string, stream: StreamName, progress: Progress) => void
}

/** A stream that was compared, or why it could not be. */
export type StreamResult =
  | { readonly stream: StreamName; readonly status: RunStatus; readonly verified: StreamVerified }
  | { readonly stream: StreamName; readonly status: 'failed' | 'interrupted'; readonly error: string }

export interface VerifySummary {
  readonly runId: string
  readonly status: RunStatus
  /** True when no stream of no team differed, and all could be compared. */
  readonly equal: boolean
  readonly teams: readonly { readonly name: string; readonly streams: readonly StreamResult[] }[]
}

export async function verify(options: VerifyOptions): Promise<VerifySummary> {
  const { url, clock, logger, streams, repair } = options
  await using control = await openSession({ url, purpose: 'verify' })
  try {
    const teams = []
    for (const team of options.teams) teams.push({ ...team, teamId: await teamIdOf(control.db, team.name) })
    if (repair !== null) await lockStreams(control, streams, teams)
    const runId = await beginRun(control, 'verify', {
      streams: streams.map(({ name }) => name),
      teams: teams.map(({ name }) => name),
      repair: repair !== null,
    })
    await using loaders = openLoaders({
      url,
      clock,
      onRetry: (code, attempt) => logger.warn({ code, attempt }, 'loading again after a passing failure'),
    })
    const done: { name: string; streams: StreamResult[] }[] = []
    for (const team of teams) {
      await using opened = openTeam(team, options)
      const results: StreamResult[] = []
      for (const stream of streams)
        results.push(await verified(options, { control, loaders, runId }, opened, stream))
      done.push({ name: team.name, streams: results })
    }
    const results = done.flatMap((team) => team.streams)
    const status = statusOf(results.map((each) => each.status))
    await finishRun(control.db, runId, status, notesOf(done))
    const equal = results.every((each) => 'verified' in each && isEqual(each.verified))
    return { runId, status, equal, teams: done }
  } catch (error) {
    throw warehouseError(error)
  }
}

interface Run {
  readonly control: Session
  readonly loaders: Loaders
  readonly runId: string
}

async function verified(
  options: VerifyOptions,
  { control, loaders, runId }: Run,
  team: OpenTeam,
  stream: Stream,
): Promise<StreamResult> {
  const { url, clock, logger, repair, signal, onProgress } = options
  const key = { teamId: team.teamId, stream: stream.name }
  try {
    const slice = { ...key, slice: '' }
    const taken =
      repair === null
        ? { ...slice, epoch: '0', runId, cursor: null }
        : await takeSlice(control.db, slice, runId)
    const source: Source = {
      client: team.client,
      serviceClock: team.serviceClock,
      clock,
      logger,
      signal: team.signal,
      loaders,
      url,
      timezone: team.timezone,
      stream,
      taken,
      load: loadBatch,
      meter: { requests: 0, throttled: 0 },
      tally: emptyTally(),
      refusals: { count: 0 },
      onProgress: (progress) => onProgress(team.name, stream.name, progress),
    }
    const found = await verifyStream(source, repair)
    await storeVerified(control, { runId, ...key }, found)
    return { stream: stream.name, status: isMended(found) ? 'succeeded' : 'needs_attention', verified: found }
  } catch (error) {
    if (signal.aborted) return { stream: stream.name, status: 'interrupted', error: 'stopped by a signal' }
    const failure = warehouseError(error)
    const told = failure.mend === undefined ? failure.message : `${failure.message} — ${failure.mend}`
    logger.error({ team: team.name, stream: stream.name, code: failure.code }, told)
    return { stream: stream.name, status: 'failed', error: told }
  }
}

function notesOf(teams: VerifySummary['teams']): string | null {
  const notes = teams.flatMap(({ name, streams }) =>
    streams.flatMap((each) => {
      if ('error' in each) return [`${name}/${each.stream}: ${each.error}`]
      if (each.status === 'succeeded') return []
      const { missing, extra, different, repaired, note } = each.verified
      const counts = `${missing.length} missing, ${extra.length} extra, ${different.length} different, ${repaired} repaired`
      return [`${name}/${each.stream}: ${counts}${note === null ? '' : `; ${note}`}`]
    }),
  )
  return notes.length === 0 ? null : notes.join('\n')
}
