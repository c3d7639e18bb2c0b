/**
 * Loads the stored events: takes batches off the inbox and writes them into the tables.
 *
 *     take ─► read ─┐ its turn
 *          take ─► read ─┴─► write ─► commit        one batch is read while Postgres merges the one before
 *
 * Invariant: batches are taken in the order of storing and written in that order, so that two states of a record are
 * loaded in the order of arrival; `overtaken` finds earlier events that another process has taken and not settled. A
 * batch that fails is rolled back whole and taken again.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { openNotifier } from '../../core/clock.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { openDefectReports } from '../../warehouse/defects.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { DrainWatch } from '../watch.ts'
import { openUsualFields } from './current.ts'
import { type InboxRow, isAnyDue, isFull, takeDue } from './inbox-rows.ts'
import { type PreparedBatch, prepare, write } from './load-events.ts'
import { openSearchStart } from './search-start.ts'
import { openListener, openSessions } from './sessions.ts'
import { type DrainOutcome, isCausedByAnEvent, reportOutcome, settleOneByOne } from './settle-one-by-one.ts'

export interface DrainTeam {
  readonly name: string
  readonly teamId: number
  /** `X-API-VERSION` that the team requests, which decides the fields of a whole record; v2.1 by default. */
  readonly apiVersion?: string
}

export interface DrainOptions {
  /** Of the warehouse. */
  readonly url: string
  /** Events of other teams are left alone. */
  readonly teams: readonly DrainTeam[]
  readonly clock: Clock
  readonly logger: Logger
  readonly watch: DrainWatch
  /** Batches in flight: one is written, the others are read. */
  readonly workers?: number
  /** Most events of a batch. */
  readonly batch?: number
  readonly pollMs?: number
  /** Milliseconds before each further attempt at an event that cannot be loaded; then it is dead-lettered. */
  readonly backoffMs?: readonly number[]
  /** Called when records have to be fetched. */
  readonly onRefetchRequested?: () => void
}

export interface Drain extends AsyncDisposable {
  wake(): void
  /** Resolves when nothing is pending and due, in this process or another. */
  idle(): Promise<void>
  /** Why nothing is drained; null while it is. */
  trouble(): string | null
  /** Finishes the batches in flight. */
  close(): Promise<void>
}

const MAX_PAUSE_MS = 5_000
/** A batch takes milliseconds; one that takes this long waits for a server that hangs, and is reported as trouble. */
const STUCK_MICROS = 30_000_000
const CLOSE_MS = 15_000

export function openDrain(options: DrainOptions): Drain {
  const { url, teams, clock, logger, watch, workers = 2, batch = 1_000, pollMs = 1_000 } = options
  const teamIds = teams.map((team) => team.teamId)
  const versions = new Map(teams.map((team) => [team.teamId, team.apiVersion]))
  const loading = {
    teamIds,
    apiVersionOf: (teamId: number) => versions.get(teamId) ?? 'v2.1',
    usual: openUsualFields(clock),
    backoffMs: options.backoffMs ?? [1_000, 10_000, 60_000],
  }
  const notifier = openNotifier(clock)
  const closing = new AbortController()
  const listener = openListener({ url, channel: 'intake_inbox', clock, logger, onNotice: notifier.notify })
  const sessions = openSessions(url, clock)
  const start = openSearchStart(clock)
  /** When the search for the next batch began; null while none is searched for. */
  let lookingSince: number | null = null
  /** When each batch in flight was taken. */
  const inFlight = new Map<Promise<void>, number>()
  let failures = 0
  let failure: string | null = null

  async function run(): Promise<void> {
    let before = Promise.resolve()
    while (!closing.signal.aborted) {
      const seen = notifier.count
      try {
        if (failures > 0) await pause()
        if (closing.signal.aborted) break
        const session = await sessions.take()
        lookingSince = clock.now()
        const prepared = await sessions.bounded(session, look(session)).finally(() => {
          lookingSince = null
        })
        if (prepared === null) {
          sessions.release(session)
          succeeded()
        } else {
          before = writeAfter(session, prepared, before)
        }
        if (prepared === null || !isFull(prepared.rows, batch)) {
          // Events that arrive meanwhile make one batch instead of several small ones.
          await Promise.all(inFlight.keys())
          await notifier.wait(seen, pollMs)
        }
        while (inFlight.size >= workers) await Promise.race(inFlight.keys())
      } catch (error) {
        failed(error)
      }
    }
    await before
  }

  /** Takes and reads a batch; null when there is none. */
  async function look(session: Session): Promise<PreparedBatch | null> {
    const take = () => start.search((startOf) => takeDue(session, teamIds, batch, startOf))
    try {
      return await prepare(session, loading, take)
    } catch (error) {
      try {
        if (!isCausedByAnEvent(error)) throw error
        await session.client.query('rollback')
        await session.client.query('begin')
        const rows = await take()
        await session.client.query('rollback')
        await settleParts(session, error, rows)
        return await look(session)
      } catch (thrown) {
        await sessions.discard(session)
        throw thrown
      }
    }
  }

  /** Writes a batch when the one before it is written. */
  function writeAfter(session: Session, prepared: PreparedBatch, before: Promise<void>): Promise<void> {
    const writing = before
      .then(() => sessions.bounded(session, finish(session, prepared)))
      .then(
        () => {
          sessions.release(session)
          succeeded()
        },
        async (error: unknown) => {
          await sessions.discard(session)
          failed(error)
        },
      )
      .finally(() => inFlight.delete(writing))
    inFlight.set(writing, clock.now())
    return writing
  }

  async function finish(session: Session, prepared: PreparedBatch): Promise<void> {
    try {
      const loaded = await write(session, loading, prepared)
      report({ loaded: [loaded], postponed: [], deadLettered: [] })
    } catch (error) {
      if (!isCausedByAnEvent(error)) throw error
      await session.client.query('rollback')
      await settleParts(session, error, prepared.rows)
    }
  }

  /** After an error of our own code the batch is drained event by event, which is slow and must be noticed. */
  async function settleParts(session: Session, error: unknown, rows: readonly InboxRow[]): Promise<void> {
    const reportDefect = openDefectReports({ logger, onDefect: ({ kind }) => watch.defect(kind) })
    const consequence = `the ${rows.length} events of a batch are tried one by one`
    const note = (failure: unknown, part: readonly InboxRow[]) =>
      reportDefect(session, failure, { teamIds: part.map((row) => row.teamId), consequence })
    await note(error, rows)
    report(await settleOneByOne(session, loading, rows, note))
  }

  function report(outcome: DrainOutcome): void {
    reportOutcome(watch, teams, outcome)
    for (const row of outcome.postponed)
      logger.warn(described(row), 'an event could not be loaded; tried again')
    for (const row of outcome.deadLettered)
      logger.error(described(row), 'an event could not be loaded; dead-lettered')
    if (outcome.loaded.some(({ refetches }) => refetches > 0)) options.onRefetchRequested?.()
  }

  function succeeded(): void {
    if (failures > 0) logger.info({ failures }, 'draining events again')
    failures = 0
    failure = null
  }

  function failed(error: unknown): void {
    const reason = warehouseError(error)
    start.reset()
    if (failures === 0) logger.warn({ code: reason.code }, `events are not drained: ${reason.message}`)
    failures += 1
    failure = reason.message
  }

  async function pause(): Promise<void> {
    const milliseconds = Math.min(100 * 2 ** failures, MAX_PAUSE_MS)
    await clock.sleep(milliseconds, closing.signal).catch(() => {})
  }

  const running = run()

  async function close(): Promise<void> {
    closing.abort()
    notifier.notify()
    const withTimeout = new AbortController()
    const limit = clock.sleep(CLOSE_MS, withTimeout.signal).catch(() => {})
    await Promise.race([Promise.all([running, listener.close()]), limit])
    withTimeout.abort()
    await sessions.close()
  }

  return {
    wake: notifier.notify,
    async idle() {
      await using session = await openSession({ url, purpose: 'drain idle' })
      while (!closing.signal.aborted) {
        if (inFlight.size === 0) {
          if (!(await isAnyDue(session, teamIds))) return
          notifier.notify()
        }
        await clock.sleep(20, closing.signal).catch(() => {})
      }
    },
    trouble() {
      const oldest = Math.min(...inFlight.values(), lookingSince ?? Number.POSITIVE_INFINITY)
      const seconds = Math.round((clock.now() - oldest) / 1_000_000)
      if (clock.now() - oldest > STUCK_MICROS) return `a batch of events is under way for ${seconds} s`
      return failure
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function described({ seq, teamId, attempts }: InboxRow) {
  return { seq, team_id: teamId, attempts: attempts + 1 }
}
