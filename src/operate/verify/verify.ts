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
import { newPatience } from '../../extract/fetch-by-id.ts'
import { emptyTally, type Progress, type Source } from '../../extract/source.ts'
import { loadBatch } from '../../load/load.ts'
import { type Loaders, openLoaders } from '../../load/loaders.ts'
import { beginRun, finishRun, type RunStatus } from '../../load/runs.ts'
import { type TakenSlice, takeSlice } from '../../load/slice.ts'
import { lockStreams } from '../../load/stream-locks.ts'
import { teamIdOf } from '../../load/teams.ts'
import { formExports } from '../../streams/exports.ts'
import { responses } from '../../streams/responses.ts'
import type { Stream } from '../../streams/stream.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { describeTables } from '../expected/tables.ts'
import { statusOf } from '../replay/replay.ts'
import { type Channels, compareChannels } from './deep/channels.ts'
import { expectSource } from './expect-source.ts'
import { isEqual, isMended, storeChannels, storeVerified } from './store.ts'
import {
  type Desks,
  openDesks,
  type RepairOptions,
  type StreamVerified,
  verifyStream,
} from './verify-stream.ts'

export interface VerifyOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly teams: readonly TeamSource[]
  readonly streams: readonly Stream[]
  /** Null to compare only. */
  readonly repair: RepairOptions | null
  /** Hold the files of the exports against the responses too; both streams must be among those asked for. */
  readonly deep: boolean
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
  readonly teams: readonly TeamVerified[]
}

export interface TeamVerified {
  readonly name: string
  readonly streams: readonly StreamResult[]
  /** Null where it was not asked for, or one of the two streams could not be read. */
  readonly deep: Channels | null
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
    const done: TeamVerified[] = []
    for (const team of teams) {
      await using opened = openTeam(team, options)
      await using desks = await openDesks(url)
      const run: Run = { options, control, loaders, runId, desks, team: opened }
      const results: StreamResult[] = []
      for (const stream of streams) results.push(await verified(run, stream))
      const isRead = results.every((each) => 'verified' in each)
      const deep = options.deep && isRead ? await channelsOf(run) : null
      done.push({ name: team.name, streams: results, deep })
    }
    const results = done.flatMap((team) => team.streams)
    const disagree = done.some(({ deep }) => deep !== null && deep.differences.length > 0)
    const status = statusOf([
      ...results.map((each) => each.status),
      disagree ? 'needs_attention' : 'succeeded',
    ])
    await finishRun(control.db, runId, status, notesOf(done))
    const equal = !disagree && results.every((each) => 'verified' in each && isEqual(each.verified))
    return { runId, status, equal, teams: done }
  } catch (error) {
    throw warehouseError(error)
  }
}

interface Run {
  readonly options: VerifyOptions
  readonly control: Session
  readonly loaders: Loaders
  readonly runId: string
  readonly desks: Desks
  readonly team: OpenTeam
}

function sourceOf({ options, loaders, team }: Run, stream: Stream, taken: TakenSlice): Source {
  const { url, clock, logger, onProgress } = options
  return {
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
    patience: newPatience(),
    onProgress: (progress) => onProgress(team.name, stream.name, progress),
  }
}

function untaken({ team, runId }: Run, stream: Stream): TakenSlice {
  return {
    teamId: team.teamId,
    stream: stream.name,
    slice: '',
    epoch: '0',
    runId,
    cursor: null,
    takenAt: '-infinity',
  }
}

async function verified(run: Run, stream: Stream): Promise<StreamResult> {
  const { options, control, runId, team } = run
  const { logger, repair, signal } = options
  const key = { teamId: team.teamId, stream: stream.name }
  try {
    const taken =
      repair === null ? untaken(run, stream) : await takeSlice(control.db, { ...key, slice: '' }, runId)
    const source = sourceOf(run, stream, taken)
    const found = await verifyStream(source, run.desks, repair)
    await storeVerified(control, { runId, ...key }, found)
    // What could not be fetched was not compared.
    const isDone = isMended(found) && source.patience.later.size === 0
    return { stream: stream.name, status: isDone ? 'succeeded' : 'needs_attention', verified: found }
  } catch (error) {
    if (signal.aborted) return { stream: stream.name, status: 'interrupted', error: 'stopped by a signal' }
    const failure = warehouseError(error)
    const told = failure.mend === undefined ? failure.message : `${failure.message} — ${failure.mend}`
    logger.error({ team: team.name, stream: stream.name, code: failure.code }, told)
    return { stream: stream.name, status: 'failed', error: told }
  }
}

/** What both channels say in this run; what differs is looked at a second time, since they are not read at once. */
async function channelsOf(run: Run): Promise<Channels> {
  const { options, control, desks, team, runId } = run
  const { session, scanning } = desks
  const first = await compareChannels(session, team.teamId, options.signal)
  let channels = first
  if (first.differences.length > 0) {
    for (const stream of [responses, formExports]) {
      const tables = await describeTables(session, stream)
      await expectSource(sourceOf(run, stream, untaken(run, stream)), session, scanning, tables)
    }
    const again = await compareChannels(session, team.teamId, options.signal)
    const before = new Set(first.differences.map((each) => JSON.stringify(each)))
    channels = { ...again, differences: again.differences.filter((each) => before.has(JSON.stringify(each))) }
  }
  await storeChannels(control, { runId, teamId: team.teamId }, channels)
  return channels
}

function notesOf(teams: VerifySummary['teams']): string | null {
  const notes = teams.flatMap(({ name, streams, deep }) => [
    ...(deep === null || deep.differences.length === 0
      ? []
      : [`${name}: exports and responses differ in ${deep.differences.length} place(s)`]),
    ...streams.flatMap((each) => {
      if ('error' in each) return [`${name}/${each.stream}: ${each.error}`]
      if (each.status === 'succeeded') return []
      const { missing, extra, different, repaired, note } = each.verified
      const counts = `${missing.length} missing, ${extra.length} extra, ${different.length} different, ${repaired} repaired`
      return [`${name}/${each.stream}: ${counts}${note === null ? '' : `; ${note}`}`]
    }),
  ])
  return notes.length === 0 ? null : notes.join('\n')
}
