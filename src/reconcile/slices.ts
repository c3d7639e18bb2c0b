/**
 * Verifications and replays that workers execute: plans a run, and says what a worker does for its slices
 * (extract/slices.ts).
 *
 * Invariant: a stream gives the result that it gives where one process executes the run. A comparison without repair
 * reserves no stream; a repair and a replay do, and write only while their worker has the slice.
 */
import { type Kysely, sql } from 'kysely'
import { placeHashOf, type TeamPlace } from '../extract/backfill-options.ts'
import type { Part, Settling, Work, Works } from '../extract/slices.ts'
import { countWorkers } from '../load/claims.ts'
import { matchQuestions } from '../load/exports/file-problems.ts'
import type { Phase } from '../load/run-progress.ts'
import { lockStreams, type RunStatus } from '../load/runs.ts'
import { insertRun, type Planning } from '../load/slice.ts'
import { teamIdOf } from '../load/teams.ts'
import { FILES } from '../streams/catalogue.ts'
import type { Stream } from '../streams/stream.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { replayed, statusOf, teamsToReplay } from './replay.ts'
import type { Channels } from './verify/channels.ts'
import { storeChannels, storeVerified } from './verify/store.ts'
import { channelsNote, compareBoth, expectAgain, RESPONSES, type VerifyOptions } from './verify/verify.ts'
import { compareOne, failureOf, noteOf, openVerifySessions } from './verify/verify-stream.ts'

/** As `PlannedRun` of a backfill. */
export interface Planned {
  readonly runId: string
  readonly slices: number
  readonly workers: number
}

interface VerifySpec {
  readonly repair: { readonly allow_mass_delete: boolean } | null
  /** The slice of the files also compares them with the responses, which it reads for that. */
  readonly deep: boolean
}

export async function planVerify({
  url,
  repair,
  deep,
  ...asked
}: Pick<VerifyOptions, 'url' | 'streams' | 'repair' | 'deep'> & {
  readonly teams: readonly TeamPlace[]
}): Promise<Planned> {
  return await plan(url, async (control) => {
    const teams: PlannedTeam[] = []
    for (const team of asked.teams) {
      const { name } = team
      teams.push({ name, teamId: await teamIdOf(control.db, name), source: placeHashOf(team) })
    }
    const spec: VerifySpec = {
      repair: repair === null ? null : { allow_mass_delete: repair.allowMassDelete },
      deep,
    }
    const planning = { kind: 'verify', reserves: repair !== null } as const
    return { planning, teams, streams: asked.streams, spec, options: { repair: repair !== null } }
  })
}

/** `team`: one of the warehouse; default: all. */
export async function planReplay(
  url: string,
  streams: readonly Stream[],
  team: string | undefined,
): Promise<Planned> {
  return await plan(url, async (control) => {
    const teams = await teamsToReplay(control, team)
    return { planning: { kind: 'replay', reserves: true }, teams, streams, spec: {}, options: {} }
  })
}

interface PlannedTeam {
  readonly teamId: number
  readonly name: string
  /** Where workers read it; none for a replay, which reads the warehouse only. */
  readonly source?: string
}

interface Asked {
  readonly planning: Planning
  readonly teams: readonly PlannedTeam[]
  readonly streams: readonly Stream[]
  readonly spec: object
  readonly options: object
}

/** Streams that the slices reserve are locked until they are stored. */
async function plan(url: string, ask: (control: Session) => Promise<Asked>): Promise<Planned> {
  try {
    await using control = await openSession({ url, purpose: 'plan' })
    const { planning, teams, streams, spec, options } = await ask(control)
    if (planning.reserves) await lockStreams(control, streams, teams)
    // By streams first: no team waits for all streams of another.
    const parts = streams.flatMap(({ name: stream }) =>
      teams.map(({ teamId, source }) => ({ teamId, stream, ...(source === undefined ? {} : { source }) })),
    )
    const requested = {
      streams: streams.map(({ name }) => name),
      teams: teams.map(({ name }) => name),
      ...options,
      is_detached: true,
    }
    const runId = await control.db
      .transaction()
      .execute((transaction) => insertRun(transaction, requested, spec, parts, planning))
    return { runId, slices: parts.length + 1, workers: await countWorkers(control.db) }
  } catch (error) {
    throw warehouseError(error)
  }
}

async function verifySlice(part: Part): Promise<Settling> {
  const { claimed, team, stream, loaders, progress, worker } = part
  const { taken, runId } = claimed
  const { repair, deep } = claimed.spec as VerifySpec
  const options = {
    ...part.options,
    repair: repair === null ? null : { allowMassDelete: repair.allow_mass_delete },
    onProgress: () => {},
  }
  const place = { team: team.name, stream: stream.name }
  const failed = (status: 'failed' | 'interrupted', note: string): Settling => {
    return { report: { status, note }, store: async () => {} }
  }
  await using sessions = await openVerifySessions(options.url, worker)
  const run = { options, runId, team, loaders, sessions, progress }
  const result = await compareOne(run, stream, { take: () => taken, store: async () => {} })
  if ('error' in result) return failed(result.status, result.error)
  const { verified } = result
  let channels: Channels | null = null
  if (deep && stream.name === FILES.name) {
    try {
      await expectAgain(run, RESPONSES)
      channels = await compareBoth(run)
    } catch (error) {
      const failure = failureOf(options, place, error)
      return failed(failure.status, failure.error)
    }
  }
  const disagree = channels !== null && channels.differences.length > 0
  const notes = [noteOf(result), disagree ? channelsNote(channels!) : null].filter((note) => note !== null)
  const { missing, extra, different, repaired, sums } = verified
  return {
    report: {
      status: disagree ? 'needs_attention' : result.status,
      note: notes.length === 0 ? null : notes.join('; '),
      ...{ source: sums.source, warehouse: sums.warehouse, missing: missing.length, extra: extra.length },
      ...{ different: different.length, repaired },
    },
    async store(db) {
      const key = { runId, teamId: team.teamId }
      await storeVerified(db, { ...key, stream: stream.name }, verified)
      if (channels !== null) await storeChannels(db, key, channels)
    },
  }
}

async function replaySlice(part: Part): Promise<Settling> {
  const { claimed, team, stream, loaders, progress, worker, options } = part
  await using session = await openSession({ url: options.url, purpose: 'replay', worker })
  let [phase, fetched]: [Phase, number] = ['compare', 0]
  progress.watch(team.teamId, stream.name, () => {
    const none = {
      pages: 0,
      requests: 0,
      throttled: 0,
      expected: null,
      pages_left: null,
      permitted_rate: null,
    }
    return { phase, fetched, counts: {}, ...none }
  })
  const onProgress = (_team: string, _stream: string, records: number) => {
    fetched = records
  }
  const using = { session, loaders, taken: claimed.taken }
  const report = await replayed({ ...options, onProgress }, using, team, stream)
  phase = 'ended'
  return { report, store: async () => {} }
}

/** As the streams ended; what they found is stored with them. */
async function outcomeOf(db: Kysely<Warehouse>, runId: string) {
  const { rows } = await sql<{ team_id: number; name: string; statuses: RunStatus[] }>`
    select team_id, team.name, array_agg(result ->> 'status') as statuses
    from intake_ops.slices join intake.teams team using (team_id)
    where run_id = ${runId} group by team_id, team.name order by team.name`.execute(db)
  const status = statusOf(rows.flatMap(({ statuses }) => statuses))
  return { status, teams: rows.map(({ name }) => name), ids: rows.map(({ team_id }) => team_id), stale: null }
}

const VERIFY: Work = { execute: verifySlice, close: outcomeOf }

const REPLAY: Work = {
  execute: replaySlice,
  async close(db, runId) {
    const outcome = await outcomeOf(db, runId)
    // Columns of exports refer to questions of forms, and either may have been rebuilt.
    for (const teamId of outcome.ids) await matchQuestions(db, teamId)
    return outcome
  },
}

export const WORKS: Works = { verify: VERIFY, replay: REPLAY }
