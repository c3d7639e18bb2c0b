/**
 * An inbox and a drain, on a database of the test.
 *
 * Invariant: events are stored as the ingester stores them, with the time and order that the test gives. A scene closes
 * its connections; a test that opens a drain closes it.
 */
import pino from 'pino'
import { systemClock } from '../../../src/core/clock.ts'
import type { Instant } from '../../../src/core/time.ts'
import { type Drain, type DrainOptions, openDrain } from '../../../src/ingest/drain/drain.ts'
import { readEvent } from '../../../src/ingest/inbox/event.ts'
import type { DrainWatch } from '../../../src/ingest/watch.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { rowsOf } from '../../load/loading.ts'
import { createTestDatabase } from '../../support/database.ts'
import { at } from '../../support/envelopes.ts'

export interface Event {
  readonly id?: unknown
  readonly timestamp?: unknown
  readonly event_type?: unknown
  readonly source?: unknown
  readonly data?: unknown
}

export interface Scene extends AsyncDisposable {
  readonly url: string
  readonly session: Session
  readonly teamId: number
  /** Stores events that arrive one after another, a second after noon, then two, … */
  store(events: readonly (Event | string | Buffer)[], options?: Storing): Promise<void>
  /** Drains until nothing is due. */
  drain(options?: Partial<DrainOptions>): Promise<void>
  rows<Row extends object = Record<string, unknown>>(
    statement: string,
    values?: readonly unknown[],
  ): Promise<readonly Row[]>
  /** Pending refetches, as `stream id reason`. */
  asked(): Promise<readonly string[]>
  /** Status and number of events of each. */
  inbox(): Promise<Record<string, number>>
}

export interface Storing {
  readonly teamId?: number
  /** For all of them; otherwise each has its own. */
  readonly receivedAt?: Instant
}

export const silent = pino({ level: 'silent' })

export const unwatched: DrainWatch = { drained: () => {}, refetched: () => {}, defect: () => {} }

/** A drain of the first team of its warehouse, without observers. */
export function openClinicDrain(url: string): Drain {
  const teams = [{ name: 'clinic', teamId: 1 }]
  return openDrain({ url, teams, clock: systemClock, logger: silent, watch: unwatched })
}

/** Seconds after noon of the first day of 2026. */
export const noonPlus = (seconds: number): Instant => at(seconds * 1_000_000)

let arrived = 0

export async function openScene(): Promise<Scene> {
  const database = await createTestDatabase()
  const session = await openSession({ url: database.url, purpose: 'drain scene' })
  const teamId = await teamIdOf(session.db, 'default')
  const rows: Scene['rows'] = (statement, values) => rowsOf(session, statement, values)
  return {
    url: database.url,
    session,
    teamId,
    rows,
    async store(events, storing = {}) {
      for (const given of events) {
        arrived += 1
        const body = bytesOf(given)
        const event = readEvent(storing.teamId ?? teamId, body)
        await session.client.query(
          `insert into intake_raw.inbox
             (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
           values ($1, $2, decode($3, 'hex'), ($4::timestamptz at time zone 'UTC')::date, $4, $5, $6, $7, $8)
           on conflict do nothing`,
          [
            event.teamId,
            event.eventId,
            event.bodyHash,
            storing.receivedAt ?? noonPlus(3600 + arrived),
            event.eventType,
            event.source,
            event.recordId,
            body,
          ],
        )
      }
    },
    async drain(options = {}) {
      await using drain = openDrain({
        url: database.url,
        teams: [{ name: 'default', teamId }],
        clock: systemClock,
        logger: silent,
        watch: unwatched,
        ...options,
      })
      await drain.idle()
    },
    async asked() {
      const found = await rows<{ line: string }>(
        `select stream || ' ' || id || ' ' || reason as line from intake_ops.refetches order by 1`,
      )
      return found.map(({ line }) => line)
    },
    async inbox() {
      const found = await rows<{ status: string; count: number }>(
        'select status, count(*)::int as count from intake_raw.inbox group by 1 order by 1',
      )
      return Object.fromEntries(found.map(({ status, count }) => [status, count]))
    },
    async [Symbol.asyncDispose]() {
      await session.close()
      await database.drop()
    },
  }
}

function bytesOf(event: Event | string | Buffer): Buffer {
  if (Buffer.isBuffer(event)) return event
  return Buffer.from(typeof event === 'string' ? event : JSON.stringify(event))
}

let made = 0

/** An event about a patient, so many seconds after noon. */
export function patientEvent(
  id: string,
  seconds: number,
  data: object = {},
  envelope: Event = {},
): Event & { readonly data: object } {
  made += 1
  return {
    id: `event-${made}`,
    timestamp: noonPlus(seconds),
    event_type: 'updated',
    source: 'patient',
    ...envelope,
    data: patient(id, data),
  }
}

/** A patient with every field, as the service shows it. */
export function patient(
  id: string,
  fields: object = {},
): { readonly id: string; readonly [field: string]: unknown } {
  return {
    id,
    external_id: null,
    first_name: 'Ann',
    last_name: 'Other',
    email: null,
    phone_number: '',
    date_birth: null,
    sex_at_birth: null,
    provider: null,
    address: '',
    address2: '',
    city: '',
    state: '',
    zipcode: '',
    emergency_contact: null,
    patient_tags: [],
    custom_fields: {},
    created_at: noonPlus(-3600),
    updated_at: noonPlus(-3600),
    ...fields,
  }
}
