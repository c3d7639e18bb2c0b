/**
 * LISTEN in a session of its own, so that an event is drained the moment another process has stored it.
 *
 * Invariant: a session that breaks is renewed until `close`; events that were announced meanwhile are found by polling.
 */
import { once } from 'node:events'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'

export interface ListenerOptions {
  readonly url: string
  readonly channel: string
  readonly clock: Clock
  readonly logger: Logger
  readonly onNotice: () => void
}

export interface Listener {
  close(): Promise<void>
}

const RENEW_MS = 1_000

export function openListener({ url, channel, clock, logger, onNotice }: ListenerOptions): Listener {
  const closed = new AbortController()
  let session: Session | null = null

  async function listen(): Promise<void> {
    const opened = await openSession({ url, purpose: `listen ${channel}` })
    if (closed.signal.aborted) return await opened.close()
    session = opened
    const ended = once(opened.client, 'end')
    opened.client.on('notification', onNotice)
    await sql`listen ${sql.id(channel)}`.execute(opened.db)
    onNotice()
    await ended
  }

  async function run(): Promise<void> {
    while (!closed.signal.aborted) {
      try {
        await listen()
      } catch (error) {
        logger.warn({ channel, code: warehouseError(error).code }, 'cannot listen to the warehouse; polling')
        await session?.close()
      }
      session = null
      if (!closed.signal.aborted) await clock.sleep(RENEW_MS, closed.signal).catch(() => {})
    }
  }

  const running = run()
  return {
    async close() {
      closed.abort()
      await session?.close()
      await running
    },
  }
}
