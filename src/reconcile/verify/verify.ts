/**
 * Reads the source again and compares the tables with the result of a fresh load.
 *
 * Invariant: a stream that cannot be read is reported, and the others are compared; a team with a slow service delays no
 * other. Comparing takes no lock; a repair holds the locks of its streams from the start, as any run that writes them.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { StreamName } from '../../core/envelope.ts'
import { openFairQueue } from '../../core/fair-queue.ts'
import { type OpenTeam, openTeam, type TeamSource } from '../../extract/backfill-options.ts'
import { figuresOf, sourceOf } from '../../extract/run-stream.ts'
import { emptyTally, type Progress } from '../../extract/source.ts'
import type { Budgets } from '../../load/budgets.ts'
import { whyStopped } from '../../load/cancel-run.ts'
import { type Loaders, type OpenLoaders, openLoaders } from '../../load/merge/loaders.ts'
import { firstStep, openRunProgress, type RunProgress } from '../../load/run-progress.ts'
import { beginRun, finishRun, lockStreams, type RunStatus, withinRun } from '../../load/runs.ts'
import { takeSlice, untakenSlice } from '../../load/slice.ts'
import { teamIdOf } from '../../load/teams.ts'
import { FILES, streamNamed } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { describeTables } from '../expected-tables.ts'
import { statusOf } from '../replay.ts'
import { type Channels, compareChannels } from './channels.ts'
import { expectSource } from './expect-source.ts'
import { isEqual, isRepaired, storeChannels, storeVerified } from './store.ts'
import {
  openVerifySessions,
  type RepairOptions,
  type StreamVerified,
  type VerifySessions,
  verifyStream,
} from './verify-stream.ts'

/** Teams compared at once: each has two sessions, and a service that may be slow. */
const TEAMS_AT_ONCE = 8
/** Loading connections of all teams, for repairs. */
const LOADERS = 4

export interface VerifyOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly teams: readonly TeamSource[]
  readonly streams: readonly Stream[]
  /** Null to compare only. */
  readonly repair: RepairOptions | null
  /** Also compare the files of exports with responses; requires both streams. */
  readonly deep: boolean
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly version?: string
  /** Where processes share the request budgets of teams. */
  readonly budgets?: Budgets
  readonly onProgress: (team: string, stream: StreamName, progress: Progress) => void
  /** Stores how far the run has come while it runs, for the console. Default: no. */
  readonly isWatched?: boolean
}

/** The result of a stream, or the reason why it could not be compared. */
export type StreamResult =
  | { readonly stream: StreamName; readonly status: RunStatus; readonly verified: StreamVerified }
  | { readonly stream: StreamName; readonly status: 'failed' | 'interrupted'; readonly error: string }

export interface VerifySummary {
  readonly runId: string
  readonly status: RunStatus
  /** True if all streams of all teams were compared and none differed. */
  readonly equal: boolean
  readonly teams: readonly TeamVerified[]
}

export interface TeamVerified {
  readonly name: string
  readonly streams: readonly StreamResult[]
  /** Null if not requested, or if one of the two streams could not be read. */
  readonly deep: Channels | null
}

export async function verify(options: VerifyOptions): Promise<VerifySummary> {
  const { url, clock, logger, streams, repair } = options
  await using control = await openSession({ url, purpose: 'verify' })
  try {
    const teams: (TeamSource & { readonly teamId: number })[] = []
    for (const team of options.teams) teams.push({ ...team, teamId: await teamIdOf(control.db, team.name) })
    if (repair !== null) await lockStreams(control, streams, teams)
    const runId = await beginRun(control, 'verify', {
      streams: streams.map(({ name }) => name),
      teams: teams.map(({ name }) => name),
      repair: repair !== null,
    })
    return await withinRun({ url, runId, session: control, signal: options.signal }, async (signal) => {
      const watched = { url, teams, clock, logger, runId: options.isWatched === true ? runId : null }
      await using progress = openRunProgress(watched)
      await using loaders = openLoaders({
        url,
        clock,
        total: LOADERS,
        onRetry: (code, attempt) => logger.warn({ code, attempt }, 'loading again after a temporary failure'),
      })
      const queue = openFairQueue({ perTeam: 1, total: TEAMS_AT_ONCE })
      const done = await Promise.all(
        teams.map((team) =>
          queue.add(team.teamId, () =>
            verifyTeam(
              { options: { ...options, signal, logger: progress.logger }, control, loaders, runId, progress },
              team,
            ),
          ),
        ),
      )
      const results = done.flatMap((team) => team.streams)
      const disagree = done.some(({ deep }) => deep !== null && deep.differences.length > 0)
      const status = statusOf([
        ...results.map((result) => result.status),
        disagree ? 'needs_attention' : 'succeeded',
      ])
      await finishRun(control.db, runId, status, notesOf(done))
      const equal = !disagree && results.every((each) => 'verified' in each && isEqual(each.verified))
      return { runId, status, equal, teams: done }
    })
  } catch (error) {
    throw warehouseError(error)
  }
}

interface VerifyContext {
  readonly options: VerifyOptions
  readonly control: Session
  readonly loaders: OpenLoaders
  readonly runId: string
  readonly progress: RunProgress
}

interface Run extends Omit<VerifyContext, 'loaders'> {
  readonly loaders: Loaders
  readonly sessions: VerifySessions
  readonly team: OpenTeam
}

/** Never throws: an error fails the streams of this team, and the other teams continue. */
async function verifyTeam(
  shared: VerifyContext,
  team: TeamSource & { readonly teamId: number },
): Promise<TeamVerified> {
  const { options } = shared
  const results: StreamResult[] = []
  let deep: Channels | null = null
  try {
    await using opened = openTeam(team, options)
    await using sessions = await openVerifySessions(options.url)
    const loaders = shared.loaders.ofTeam(team.teamId)
    const run: Run = { ...shared, loaders, sessions, team: opened }
    for (const stream of options.streams) results.push(await verified(run, stream))
    const isRead = results.every((result) => 'verified' in result)
    deep = options.deep && isRead ? await channelsOf(run) : null
  } catch (error) {
    // The step after the last stream compares exports with responses.
    const unread = options.streams.slice(results.length).map(({ name }) => name)
    const failed = unread.length > 0 ? unread : [FILES.name]
    const kept = results.filter(({ stream }) => !failed.includes(stream))
    results.splice(0, results.length, ...kept)
    for (const stream of failed)
      results.push({ stream, ...failureOf(options, { team: team.name, stream }, error) })
  }
  return { name: team.name, streams: results, deep }
}

async function verified(run: Run, stream: Stream): Promise<StreamResult> {
  const { options, control, runId, team } = run
  const { repair } = options
  const key = { teamId: team.teamId, stream: stream.name }
  const counted = { meter: { requests: 0, throttled: 0 }, tally: emptyTally(), step: firstStep() }
  run.progress.watch(team.teamId, stream.name, () => figuresOf({ ...counted, client: team.client }))
  try {
    const taken =
      repair === null
        ? untakenSlice({ ...key, slice: '' }, runId)
        : await takeSlice(control.db, { ...key, slice: '' }, runId)
    const source = sourceOf(options, team, { stream, taken, loaders: run.loaders, ...counted })
    const found = await verifyStream(source, run.sessions, repair)
    await storeVerified(control, { runId, ...key }, found)
    // Records that could not be fetched were not compared.
    const isDone = isRepaired(found) && source.failedFetches.later.size === 0
    return { stream: stream.name, status: isDone ? 'succeeded' : 'needs_attention', verified: found }
  } catch (error) {
    return { stream: stream.name, ...failureOf(options, { team: team.name, stream: stream.name }, error) }
  } finally {
    counted.step.phase = 'ended'
  }
}

function failureOf(
  { logger, signal }: VerifyOptions,
  place: { readonly team: string; readonly stream: StreamName },
  error: unknown,
): { readonly status: 'failed' | 'interrupted'; readonly error: string } {
  if (signal.aborted) return { status: 'interrupted', error: whyStopped(signal) }
  const { code, message, hint } = warehouseError(error)
  const note = hint === undefined ? message : `${message} — ${hint}`
  logger.error({ ...place, code }, note)
  return { status: 'failed', error: note }
}

/** Compares both channels; differences are confirmed by a second read, since the channels are not read at once. */
async function channelsOf(run: Run): Promise<Channels> {
  const { options, control, sessions, team, runId } = run
  const { session, scanning } = sessions
  const first = await compareChannels(session, team.teamId, options.signal)
  let channels = first
  if (first.differences.length > 0) {
    for (const stream of [streamNamed(FILES.reading.rowsOf)!, FILES]) {
      const tables = await describeTables(session, stream)
      const taken = untakenSlice({ teamId: team.teamId, stream: stream.name, slice: '' }, runId)
      const source = sourceOf(options, team, { stream, taken, loaders: run.loaders })
      await expectSource(source, session, scanning, tables)
    }
    const again = await compareChannels(session, team.teamId, options.signal)
    const before = new Set(first.differences.map((difference) => JSON.stringify(difference)))
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
    ...streams.flatMap((stream) => {
      if ('error' in stream) return [`${name}/${stream.stream}: ${stream.error}`]
      if (stream.status === 'succeeded') return []
      const { missing, extra, different, repaired, note } = stream.verified
      const counts = `${missing.length} missing, ${extra.length} extra, ${different.length} different, ${repaired} repaired`
      return [`${name}/${stream.stream}: ${counts}${note === null ? '' : `; ${note}`}`]
    }),
  ])
  return notes.length === 0 ? null : notes.join('\n')
}
