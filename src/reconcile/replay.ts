/**
 * Rebuilds `intake` from intake_raw, without requests to the service.
 *
 * Invariant: afterwards the tables of a stream are as after loading its records again: rows without a record are removed;
 * versions, tombstones, hashes, problems and origins are those of the records. A replay is idempotent, and one that was
 * stopped is completed by the next.
 */
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { Envelope, StreamName } from '../core/envelope.ts'
import { selectTeams } from '../core/which-team.ts'
import { whyStopped } from '../load/cancel-run.ts'
import { matchQuestions } from '../load/exports/file-problems.ts'
import { isRefusalOfData } from '../load/merge/load.ts'
import { openLoaders } from '../load/merge/loaders.ts'
import { beginRun, finishRun, lockStreams, type RunStatus, withinRun } from '../load/runs.ts'
import type { Stream } from '../streams/stream.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { readTeams, type WarehouseTeam } from '../warehouse/teams.ts'
import { nextPortion } from './expected-from-raw.ts'
import { describeTables } from './expected-tables.ts'
import { type Replaying, replayFiles } from './replay-files.ts'
import { type RewriteCounts, type RewritePortion, rewritePart } from './rewrite.ts'

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
  const { url, clock, logger, streams } = options
  await using session = await openSession({ url, purpose: 'replay' })
  try {
    const teams = await teamsToReplay(session, options.team)
    await lockStreams(session, streams, teams)
    const requested = { streams: streams.map(({ name }) => name), teams: teams.map(({ name }) => name) }
    const runId = await beginRun(session, 'replay', requested)
    return await withinRun({ url, runId, session, signal: options.signal }, async (signal) => {
      await using loaders = openLoaders({
        url,
        clock,
        onRetry(code, attempt, teamId) {
          const team = teams.find((each) => each.teamId === teamId)?.name
          logger.warn({ team, code, attempt }, 'rewriting again after a temporary failure')
        },
      })
      const done: { name: string; streams: { stream: StreamName; report: ReplayReport }[] }[] = []
      for (const team of teams) {
        const reports: { stream: StreamName; report: ReplayReport }[] = []
        const sessions = { session, loaders: loaders.ofTeam(team.teamId) }
        for (const stream of streams) {
          reports.push({
            stream: stream.name,
            report: await replayed({ ...options, signal }, sessions, team, stream),
          })
        }
        // Columns of exports refer to questions of forms, and either may have been rebuilt.
        if (!signal.aborted) await matchQuestions(session.db, team.teamId)
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

/** A failure is in the report. */
export async function replayed(
  { clock, signal, logger, onProgress }: Omit<ReplayOptions, 'url' | 'team' | 'streams'>,
  using: Pick<Replaying, 'session' | 'loaders' | 'taken'>,
  { teamId, name }: Pick<WarehouseTeam, 'teamId' | 'name'>,
  stream: Stream,
): Promise<ReplayReport> {
  const begun = clock.now()
  const report = (status: RunStatus, counts: Replayed, note: string | null): ReplayReport => {
    return { status, ...counts, seconds: Math.round((clock.now() - begun) / 1000) / 1000, note }
  }
  const none: Replayed = { records: 0, rewritten: 0, removed: 0, refused: 0 }
  try {
    const onRecords = (records: number) => onProgress(name, stream.name, records)
    const counts = await replayStream({ ...using, teamId, stream, signal, onProgress: onRecords })
    if (counts.refused === 0) return report('succeeded', counts, null)
    const note = `${counts.refused} of its records could not be rebuilt; their rows are unchanged`
    return report('needs_attention', counts, note)
  } catch (error) {
    if (signal.aborted)
      return report('interrupted', none, `${whyStopped(signal)}; run it again to complete it`)
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

interface Replayed extends RewriteCounts {
  /** Records of intake_raw, tombstones among them. */
  readonly records: number
  /** Records whose rows Postgres would not take. */
  readonly refused: number
}

/**
 * One stream of one team, rebuilt from intake_raw.
 *
 *     intake_raw, portion by portion ─► mapped here, while Postgres compares the portion before ─► rewritten
 *
 * Invariant: the portions cover all possible ids, so that a row without a record is in one of them. A record that Postgres
 * refuses keeps its rows, is counted, and does not stop the others.
 */
async function replayStream(replaying: Replaying): Promise<Replayed> {
  const { session, loaders, teamId, stream, taken, signal, onProgress } = replaying
  const tables = await describeTables(session, stream)
  const total = { records: 0, rewritten: 0, removed: 0, refused: 0 }
  // First, because the rows of exports contain the problems of their files.
  if (tables.files.length > 0) {
    const files = await replayFiles(replaying, tables)
    total.rewritten += files.rewritten
    total.refused += files.refused
  }
  const running = new Set<Promise<void>>()
  let failure: { readonly error: unknown } | null = null

  async function rewrite(part: RangePortion): Promise<void> {
    const counts = await loaders.run((loader) => rewriteOrHalve(loader, part))
    total.rewritten += counts.rewritten
    total.removed += counts.removed
    total.refused += counts.refused
  }

  for (let after: string | null = null, ended = false; !ended; ) {
    signal.throwIfAborted()
    const { envelopes, to } = await nextPortion(session, { teamId, stream: stream.name }, after)
    await loaders.ready()
    if (failure !== null) break
    const work = rewrite({ teamId, tables, envelopes, scope: { kind: 'range', after, to }, taken })
      .catch((error: unknown) => {
        failure ??= { error }
      })
      .finally(() => running.delete(work))
    running.add(work)
    total.records += envelopes.length
    onProgress(total.records)
    after = to
    ended = to === null
  }
  await Promise.all(running)
  if (failure !== null) throw (failure as { readonly error: unknown }).error
  return total
}

type Counts = RewriteCounts & { readonly refused: number }

/** A portion of all ids. */
type RangePortion = RewritePortion & { readonly scope: { readonly kind: 'range' } }

async function rewriteOrHalve(session: Session, part: RangePortion): Promise<Counts> {
  try {
    return { ...(await rewritePart(session, part)), refused: 0 }
  } catch (error) {
    const { envelopes } = part
    if (!isRefusalOfData((error as { code?: string }).code) || envelopes.length === 0) throw error
    if (envelopes.length === 1) return { rewritten: 0, removed: 0, refused: 1 }
    const middle = envelopes.length >> 1
    const first = await rewriteOrHalve(session, partOf(part, envelopes.slice(0, middle), 'first'))
    const second = await rewriteOrHalve(session, partOf(part, envelopes.slice(middle), 'second'))
    return {
      rewritten: first.rewritten + second.rewritten,
      removed: first.removed + second.removed,
      refused: first.refused + second.refused,
    }
  }
}

/** Of a part that is cut in two, the second begins after the last id of the first. */
function partOf(part: RangePortion, envelopes: readonly Envelope[], half: 'first' | 'second'): RangePortion {
  const { scope } = part
  const bounds =
    half === 'first'
      ? { after: scope.after, to: envelopes.at(-1)!.id }
      : { after: part.envelopes[part.envelopes.length - envelopes.length - 1]!.id, to: scope.to }
  return { ...part, envelopes, scope: { kind: 'range', ...bounds } }
}
