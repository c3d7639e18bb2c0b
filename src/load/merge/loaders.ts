/**
 * The loading connections of a run: two for a team by default, so that one batch is prepared while Postgres merges
 * another.
 *
 * Invariant: a session serves one batch at a time; a broken session is replaced; a batch that failed for a transient
 * reason (a lock, a deadlock, a lost connection) is loaded again from the start, which law 2 makes safe. A team whose
 * batches wait for a lock uses no more sessions than its own limit.
 */
import type { Clock } from '../../core/clock.ts'
import { IntakeError, verdictOf } from '../../core/errors.ts'
import { openFairQueue } from '../../core/fair-queue.ts'
import { destroySocket, openSession, PLANNER, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'

export interface LoadersOptions {
  readonly url: string
  /** Sessions of one team; two when left out. */
  readonly count?: number
  /** Sessions of all teams; those of one when left out. */
  readonly total?: number
  readonly clock: Clock
  /** Called before each retry; `teamId` is negative for work that belongs to no team. */
  readonly onRetry?: (code: string, attempt: number, teamId: number) => void
  readonly lockTimeoutMs?: number
  /** Ends the names of the sessions (`ConnectionOptions.worker`). */
  readonly worker?: string | undefined
}

export interface Loaders {
  /** Runs `work` on a free session, with retries after transient failures. */
  run<Result>(work: (session: Session) => Promise<Result>): Promise<Result>
  /** Resolves once no work of the team is queued; readers await it before they read on. */
  ready(): Promise<void>
}

/** Loaders for callers without teams; `ofTeam` for those with several. */
export interface OpenLoaders extends Loaders, AsyncDisposable {
  ofTeam(teamId: number): Loaders
  /** Waits for work that was begun. Work that has not ended after fifteen seconds fails, and nothing is tried again. */
  close(): Promise<void>
}

/** Key of work that belongs to no team. */
const NO_TEAM = -1

const ATTEMPTS = 3

const PAUSE_MS = 500

/** A batch takes milliseconds; what takes this long waits for a server that hangs. */
const CLOSE_MS = 15_000

export function openLoaders(options: LoadersOptions): OpenLoaders {
  const { clock, count = 2, total = count } = options
  const queue = openFairQueue({ perTeam: count, total })
  const free: Session[] = []
  const inUse = new Set<Session>()
  let isClosed = false
  const { lockTimeoutMs, worker } = options
  const sessionOptions = {
    purpose: 'load',
    worker,
    planner: PLANNER.load,
    ...(lockTimeoutMs === undefined ? {} : { lockTimeoutMs }),
  }

  async function attempt<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    const session = free.pop() ?? (await openSession({ ...sessionOptions, url: options.url }))
    inUse.add(session)
    try {
      const result = await work(session)
      // A worker that lost its session closes its loaders, perhaps while a slice is still being loaded.
      if (isClosed) await session.close()
      else free.push(session)
      return result
    } catch (error) {
      // The session may be in a transaction, or lost: the next attempt opens a new one.
      await session.close()
      throw warehouseError(error)
    } finally {
      inUse.delete(session)
    }
  }

  async function persist<Result>(
    teamId: number,
    work: (session: Session) => Promise<Result>,
  ): Promise<Result> {
    for (let tries = 1; ; tries++) {
      // A failure of the work itself, such as an unreachable service, is not retried with another session.
      let isOfWork = false
      try {
        return await attempt((session) =>
          work(session).catch((error: unknown) => {
            isOfWork = error instanceof IntakeError
            throw error
          }),
        )
      } catch (error) {
        if (isClosed || isOfWork || verdictOf(error) !== 'retry' || tries === ATTEMPTS) throw error
        options.onRetry?.((error as { code?: string }).code ?? 'unknown', tries, teamId)
        await clock.sleep(PAUSE_MS * tries)
      }
    }
  }

  async function close(): Promise<void> {
    isClosed = true
    const idle = new AbortController()
    const late = clock.sleep(CLOSE_MS, idle.signal).then(
      () => {
        for (const { client } of inUse) destroySocket(client)
      },
      () => {},
    )
    await queue.onIdle()
    idle.abort()
    await late
    await Promise.all(free.splice(0).map((session) => session.close()))
  }

  const ofTeam = (teamId: number): Loaders => ({
    run: (work) => queue.add(teamId, () => persist(teamId, work)),
    ready: () => queue.onNoneWaiting(teamId),
  })

  return {
    ...ofTeam(NO_TEAM),
    ofTeam,
    close,
    [Symbol.asyncDispose]: close,
  }
}
