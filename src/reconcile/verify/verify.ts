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
import { openTeam, type TeamSource } from '../../extract/backfill-options.ts'
import { sourceOf } from '../../extract/run-stream.ts'
import type { Progress } from '../../extract/source.ts'
import type { Budgets } from '../../load/budgets.ts'
import { type OpenLoaders, openLoaders } from '../../load/merge/loaders.ts'
import { openRunProgress, type RunProgress } from '../../load/run-progress.ts'
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
import { storeChannels, storeVerified } from './store.ts'
import {
  type Comparing,
  compareOne,
  failureOf,
  isEqual,
  noteOf,
  openVerifySessions,
  type RepairOptions,
  type StreamResult,
  type StreamVerified,
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
        onRetry(code, attempt, teamId) {
          const team = teams.find((each) => each.teamId === teamId)?.name
          logger.warn({ team, code, attempt }, 'loading again after a temporary failure')
        },
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
    const { control, runId } = shared
    const run: Comparing = { ...shared, loaders, sessions, team: opened }
    for (const stream of options.streams) {
      const key = { teamId: team.teamId, stream: stream.name, slice: '' }
      const take = () =>
        options.repair === null ? untakenSlice(key, runId) : takeSlice(control.db, key, runId)
      const store = (found: StreamVerified) => storeVerified(control.db, { runId, ...key }, found)
      results.push(await compareOne(run, stream, { take, store }))
    }
    const isRead = results.every((result) => 'verified' in result)
    if (options.deep && isRead) {
      deep = await compareBoth(run)
      await storeChannels(control.db, { runId, teamId: team.teamId }, deep)
    }
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

/** Compares both channels; differences are confirmed by a second read, since the channels are not read at once. */
export async function compareBoth(run: Comparing): Promise<Channels> {
  const { options, sessions, team } = run
  const compare = () => compareChannels(sessions.session, team.teamId, options.signal)
  const first = await compare()
  if (first.differences.length === 0) return first
  for (const stream of [RESPONSES, FILES]) await expectAgain(run, stream)
  const again = await compare()
  const before = new Set(first.differences.map((difference) => JSON.stringify(difference)))
  return { ...again, differences: again.differences.filter((each) => before.has(JSON.stringify(each))) }
}

/** The stream whose answers files have. */
export const RESPONSES = streamNamed(FILES.reading.rowsOf)!

/** Reads the stream into the expected tables, without comparing it. */
export async function expectAgain(run: Comparing, stream: Stream): Promise<void> {
  const { options, sessions, team, runId, loaders } = run
  const tables = await describeTables(sessions.session, stream)
  const taken = untakenSlice({ teamId: team.teamId, stream: stream.name, slice: '' }, runId)
  const source = sourceOf(options, team, { stream, taken, loaders })
  await expectSource(source, sessions.session, sessions.scanning, tables)
}

function notesOf(teams: VerifySummary['teams']): string | null {
  const notes = teams.flatMap(({ name, streams, deep }) => [
    ...(deep === null || deep.differences.length === 0 ? [] : [`${name}: ${channelsNote(deep)}`]),
    ...streams.flatMap((result) => {
      const note = noteOf(result)
      return note === null ? [] : [`${name}/${result.stream}: ${note}`]
    }),
  ])
  return notes.length === 0 ? null : notes.join('\n')
}

export function channelsNote({ differences }: Channels): string {
  return `exports and responses differ in ${differences.length} place(s)`
}
