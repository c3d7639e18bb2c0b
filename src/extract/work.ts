/**
 * A worker: claims slices of planned runs and executes them, for as long as it is open.
 *
 *     each second, or when woken: say that it lives ─► free slices of workers that ended ─► claim ─► execute ─► settle
 *
 * Invariant: it has one session that holds its lock, on which it claims and settles. Without that session it is another
 * worker with another lock: it ends what it has begun, stores nothing of it, and begins anew. Closing it gives back what it
 * has not finished.
 */
import { randomBytes } from 'node:crypto'
import PQueue from 'p-queue'
import { openNotifier } from '../core/clock.ts'
import { IntakeError } from '../core/errors.ts'
import { Canceled } from '../load/cancel-run.ts'
import { beat, type ClaimedSlice, claimSlices, openWorkSession } from '../load/claims.ts'
import { release, releaseLost } from '../load/lost-slices.ts'
import { type OpenLoaders, openLoaders } from '../load/merge/loaders.ts'
import { CHANNEL } from '../load/slice.ts'
import { ALL_STREAMS } from '../streams/catalogue.ts'
import { openBoundedQueries } from '../warehouse/bounded-queries.ts'
import type { Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { sourcesOf, type TeamSource } from './backfill-options.ts'
import { BACKFILLS } from './planned-backfill.ts'
import { closeRun, type ExecuteOptions, executeSlice, type Turn, type Works, withinLimit } from './slices.ts'

export interface WorkOptions extends ExecuteOptions {
  /** Teams whose slices it can execute; several clients of a team may share its `limiter`. */
  readonly teams: readonly TeamSource[]
  /** What it executes besides backfills. */
  readonly works?: Works
  /** Slices at once. */
  readonly concurrency?: number
  /** Executes slices of this run only; default: of every run. */
  readonly runId?: string
  /** Called when a slice is given up, or none can be claimed. */
  readonly onFailed?: (error: unknown) => void
}

export interface Worker extends AsyncDisposable {
  /** Why it cannot claim slices; null while it can. */
  trouble(): string | null
  /** Settles what it executes, and claims from now on, as canceled for this reason. Returns the name under which it claims. */
  cancel(reason: string): string
  close(): Promise<void>
}

/** Slices at once of a worker, by default: two teams at their full speed. */
export const SLICES_AT_ONCE = 8
const EVERY_MS = 1_000
/** Microseconds between two rounds after which Postgres, or this process, has stood still: others had no chance either. */
const KEPT_WAITING = 4_000_000
/** Loading connections: more batches than cores only wait for each other. */
const LOADERS = 8

/** The worker for as long as its session lives. */
interface Life {
  readonly session: Session
  /** Ends in `worker`. */
  readonly owner: string
  readonly worker: string
  readonly turn: Turn
  readonly loaders: OpenLoaders
  /** Stops the slices that it executes, by their numbers. */
  readonly inHand: Map<string, AbortController>
  isOver: boolean
}

export function openWorker(options: WorkOptions): Worker {
  const { url, clock, logger, runId = null, concurrency = SLICES_AT_ONCE } = options
  const notifier = openNotifier(clock)
  const bounded = openBoundedQueries(url, 1)
  const works = { ...BACKFILLS, ...options.works }
  const claiming = {
    ...{ kinds: Object.keys(works), streams: ALL_STREAMS.map(({ name }) => name), runId },
    ...{ teams: options.teams.map(({ name }) => name), sources: options.teams.flatMap(sourcesOf) },
  }
  let isClosing = false
  let canceled: Error | null = null
  let life: Life | null = null
  /** Slices of former lives end too, and store nothing. */
  const busy = new Set<Promise<void>>()
  /** Names of the teams whose slices it has claimed. */
  const teamNames = new Map<number, string>()
  let lost: string | null = 'has not begun'
  /** When Postgres last answered, on our clock. */
  let roundAt = Number.NEGATIVE_INFINITY

  async function run(): Promise<void> {
    while (!isClosing || busy.size > 0) {
      const seen = notifier.count
      try {
        if (life === null && !isClosing) life = await openLife()
        if (life !== null) await round(life)
        lost = null
      } catch (error) {
        const { code, message } = warehouseError(error)
        if (lost !== message) logger.warn({ code }, `no slices can be claimed: ${message}`)
        lost = message
        options.onFailed?.(error)
        const current = life
        await current?.turn(({ client }) => client.query('select 1')).catch(() => end(current))
      }
      await notifier.wait(seen, EVERY_MS)
    }
  }

  async function round(current: Life): Promise<void> {
    const { inHand, owner, turn } = current
    await turn(async ({ db }) => {
      if (inHand.size > 0) {
        const still = await beat(db, owner, [...inHand.keys()])
        for (const [id, stop] of inHand)
          if (!still.has(id)) stop.abort(new Error('another worker has the slice'))
      }
      await releaseLost(db, clock.now() - roundAt < KEPT_WAITING)
      roundAt = clock.now()
      const most = concurrency - inHand.size
      if (isClosing || most <= 0) return
      for (const claimed of await claimSlices(db, { ...claiming, owner, most })) begin(current, claimed)
    })
  }

  function begin(current: Life, claimed: ClaimedSlice): void {
    const { inHand, turn, worker, loaders } = current
    const stop = new AbortController()
    // The worker may have been closed since it asked for the slice.
    if (isClosing) stop.abort('the worker stops')
    else if (canceled !== null) stop.abort(canceled)
    const execution = { options, turn, loaders, bounded, worker, signal: stop.signal }
    const { runId: run, kind } = claimed
    const place = kind === 'stream' ? { team: claimed.team, stream: claimed.stream } : {}
    async function execute(): Promise<void> {
      try {
        const work = works[claimed.work]!
        if (claimed.kind === 'close') await closeRun(execution, claimed, work)
        else {
          const source = options.teams.find(({ name }) => name === claimed.team)!
          teamNames.set(claimed.taken.teamId, claimed.team)
          await executeSlice(execution, claimed, source, work)
        }
      } catch (error) {
        const { code, message } = warehouseError(error)
        logger.warn({ run, ...place, code }, `a slice was given up: ${message}`)
        if (!stop.signal.aborted) options.onFailed?.(error)
        await clock.sleep(EVERY_MS)
        // Without its session the worker has lost the slice already.
        await turn(({ db }) => release(db, claimed, 1)).catch(() => {})
      } finally {
        // It may have lost the slice, and claimed it again since.
        if (inHand.get(claimed.sliceId) === stop) inHand.delete(claimed.sliceId)
        busy.delete(done)
        notifier.notify()
      }
    }
    const done = execute()
    inHand.set(claimed.sliceId, stop)
    busy.add(done)
  }

  /** The session is gone, and with it the lock: others have the slices, or will soon. */
  function end(current: Life): void {
    if (current.isOver) return
    current.isOver = true
    if (life === current) life = null
    for (const stop of current.inHand.values()) stop.abort(lostSession())
    void current.session.close()
    void current.loaders.close()
    notifier.notify()
  }

  async function openLife(): Promise<Life> {
    const worker = randomBytes(4).toString('hex')
    const { session, owner } = await openWorkSession(url, worker, { isOfRun: runId !== null })
    const turns = new PQueue({ concurrency: 1 })
    const opened: Life = {
      session,
      owner,
      worker,
      loaders: openLoaders({
        ...{ url, clock, total: LOADERS, worker },
        onRetry: (code, attempt, teamId) =>
          logger.warn(
            { team: teamNames.get(teamId), code, attempt },
            'loading again after a temporary failure',
          ),
      }),
      inHand: new Map(),
      isOver: false,
      turn: (work) =>
        turns.add(async () => {
          if (opened.isOver) throw lostSession()
          return await withinLimit(work(session), () => end(opened))
        }),
    }
    session.client.setMaxListeners(0).on('end', () => end(opened))
    session.client.on('notification', ({ channel }) => {
      if (channel === CHANNEL) notifier.notify()
    })
    return opened
  }

  const running = run()
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= endAll()
    return closing
  }

  async function endAll(): Promise<void> {
    isClosing = true
    for (const stop of life?.inHand.values() ?? []) stop.abort('the worker stops')
    notifier.notify()
    await running
    await life?.loaders.close()
    await bounded.close()
    await life?.session.close()
  }

  return {
    trouble: () => lost,
    cancel(reason) {
      if (canceled === null) {
        canceled = new Canceled(reason)
        for (const stop of life?.inHand.values() ?? []) stop.abort(canceled)
        notifier.notify()
      }
      return life?.owner ?? ''
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function lostSession(): IntakeError {
  return new IntakeError('the worker lost its session', {
    code: 'warehouse_unreachable',
    verdict: 'retry',
    hint: 'nothing to do: another worker continues',
  })
}
