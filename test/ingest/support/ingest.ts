/** An ingester on a warehouse of its own, with its recorded answers and logs, and signed events to send to it. */

import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { systemClock } from '../../../src/core/clock.ts'
import { SIGNATURE_HEADER, sign } from '../../../src/core/signature.ts'
import type { IngestLimits } from '../../../src/ingest/http/in-flight.ts'
import type { SecretSource } from '../../../src/ingest/http/secrets.ts'
import { type Ingester, type IngesterOptions, openIngester } from '../../../src/ingest/http/server.ts'
import { createTestDatabase } from '../../support/database.ts'
import { ask } from '../../support/sessions.ts'

export const SECRET = 'a secret of the tests'

export interface Recorded {
  readonly stored: string[]
  readonly rejected: string[]
  /** Number of events of each commit. */
  readonly committed: number[]
  /** Seconds that each of them took. */
  readonly seconds: number[]
  readonly logged: string[]
}

export interface Scene extends AsyncDisposable {
  readonly url: string
  readonly ingester: Ingester
  readonly recorded: Recorded
}

export interface InboxRow {
  readonly team_id: number
  readonly event_id: string
  readonly event_type: string | null
  readonly source: string | null
  readonly record_id: string | null
  readonly body: Buffer
  readonly status: string
}

/** Time limits that no test reaches unless it is about them. */
export const PATIENT = { storeMs: 60_000, statementMs: 60_000, graceMs: 60_000, staleMs: 60_000 }

export function known(...secrets: string[]): SecretSource {
  return { current: () => secrets, isRemoved: () => false, refresh: async () => secrets }
}

export function openRecorder(): { recorded: Recorded; watch: IngesterOptions['watch']; logger: pino.Logger } {
  const recorded: Recorded = { stored: [], rejected: [], committed: [], seconds: [], logged: [] }
  return {
    recorded,
    logger: pino({ level: 'debug' }, { write: (line: string) => void recorded.logged.push(line) }),
    watch: {
      stored: (team, duplicate) => void recorded.stored.push(`${team} ${duplicate ? 'duplicate' : 'stored'}`),
      rejected: (reason, team) =>
        void recorded.rejected.push(team === undefined ? reason : `${reason} ${team}`),
      committed(events, seconds) {
        recorded.committed.push(events)
        recorded.seconds.push(seconds)
      },
    },
  }
}

export async function openScene(
  options: Partial<Omit<IngesterOptions, 'limits'>> & { limits?: Partial<IngestLimits> } = {},
): Promise<Scene> {
  const database = await createTestDatabase()
  const { recorded, watch, logger } = openRecorder()
  const teams = [{ name: 'clinic', teamId: 1, secrets: known(SECRET) }]
  const given = { host: '127.0.0.1', port: 0, teams, clock: systemClock, logger, watch, ...options }
  const limits = { ...PATIENT, ...options.limits }
  const ingester = await openIngester({ url: database.url, ...given, limits })
  return {
    url: database.url,
    ingester,
    recorded,
    async [Symbol.asyncDispose]() {
      await ingester.close()
      await database.drop()
    },
  }
}

export function eventOf(fields: Record<string, unknown> = {}): Buffer {
  const envelope = {
    id: randomUUID(),
    timestamp: '2026-01-01T00:00:00Z',
    event_type: 'updated',
    source: 'patient',
    data: { id: 'p-1', first_name: 'Ada' },
  }
  return Buffer.from(JSON.stringify({ ...envelope, ...fields }))
}

export interface Answer {
  readonly status: number
  readonly body: unknown
  readonly headers: Headers
}

export interface PostOptions {
  readonly path?: string
  readonly secret?: string
  readonly headers?: Record<string, string>
}

/** A signed POST; `headers` may replace the signature. */
export async function post(url: string, body: Buffer, options: PostOptions = {}): Promise<Answer> {
  const response = await fetch(`${url}${options.path ?? '/webhooks'}`, {
    method: 'POST',
    body: new Uint8Array(body),
    headers: { [SIGNATURE_HEADER]: sign(body, options.secret ?? SECRET), ...options.headers },
  })
  return { status: response.status, body: await response.json(), headers: response.headers }
}

export const query = ask

export function inboxOf(url: string): Promise<InboxRow[]> {
  return query<InboxRow>(url, 'select * from intake_raw.inbox order by seq')
}
