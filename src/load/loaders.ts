/**
 * The loading connections of a run: two by default, so that one batch is prepared while Postgres merges another.
 *
 * Invariant: a session serves one batch at a time; one that broke is replaced; a batch that failed for a passing
 * reason (a lock, a deadlock, a lost connection) is loaded again from the start, which law 2 makes harmless.
 */
import PQueue from 'p-queue'
import type { Clock } from '../core/clock.ts'
import { verdictOf } from '../core/errors.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'

export interface LoadersOptions {
  readonly url: string
  readonly count?: number
  readonly clock: Clock
  /** Told of each failure that is tried again. */
  readonly onRetry?: (code: string, attempt: number) => void
  readonly lockTimeoutMs?: number
}

export interface Loaders extends AsyncDisposable {
  /** Runs `work` on a free session, again after a passing failure. Resolves or rejects when it is done. */
  run<Result>(work: (session: Session) => Promise<Result>): Promise<Result>
  /** Resolves when a session is free or about to be: what a reader awaits before it reads on. */
  ready(): Promise<void>
  close(): Promise<void>
}

/**
 * A batch meets large tables by their keys, a few thousand rows at a time. Statistics may be missing (a first load) or
 * stale, and a plan that reads a whole table for each batch would make a load quadratic.
 */
const PLANNER = ['enable_seqscan=off', 'jit=off']

const ATTEMPTS = 3

const PAUSE_MS = 500

export function openLoaders(options: LoadersOptions): Loaders {
  const { clock, count = 2 } = options
  const queue = new PQueue({ concurrency: count })
  const free: Session[] = []
  const { lockTimeoutMs } = options
  const sessionOptions = {
    purpose: 'load',
    planner: PLANNER,
    ...(lockTimeoutMs === undefined ? {} : { lockTimeoutMs }),
  }

  async function attempt<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    const session = free.pop() ?? (await openSession({ ...sessionOptions, url: options.url }))
    try {
      const result = await work(session)
      free.push(session)
      return result
    } catch (error) {
      // The session may be mid-transaction, or gone: the next one starts afresh.
      await session.close()
      throw warehouseError(error)
    }
  }

  async function persist<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    for (let tries = 1; ; tries++) {
      try {
        return await attempt(work)
      } catch (error) {
        if (verdictOf(error) !== 'retry' || tries === ATTEMPTS) throw error
        options.onRetry?.((error as { code?: string }).code ?? 'unknown', tries)
        await clock.sleep(PAUSE_MS * tries)
      }
    }
  }

  async function close(): Promise<void> {
    await queue.onIdle()
    await Promise.all(free.splice(0).map((session) => session.close()))
  }

  return {
    run: (work) => queue.add(() => persist(work)),
    ready: () => queue.onSizeLessThan(1),
    close,
    [Symbol.asyncDispose]: close,
  }
}
