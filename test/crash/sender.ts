/**
 * Sends signed events of patients continuously, to any ingester that answers, and records which were acknowledged.
 *
 * Invariant: an event in `acknowledged` was answered with 2xx, byte for byte; another is sent again with newer data under
 * its old id and timestamp, or abandoned, as a service may do.
 */
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { SIGNATURE_HEADER, sign } from '../../src/core/signature.ts'

export interface Sender {
  /** `event id` + space + SHA-256 of the body, in hex. */
  readonly acknowledged: ReadonlySet<string>
  readonly counts: { sent: number; unavailable: number; broken: number }
  /** Statuses that no sender should see: anything except 200 and 503. */
  readonly odd: ReadonlySet<number>
  stop(): Promise<void>
}

export interface SenderOptions {
  readonly urls: readonly string[]
  readonly secret: string
  readonly patients: number
  readonly lanes: number
  /** Pause of a lane between two events, in milliseconds. */
  readonly pauseMs: number
  readonly random: () => number
}

export function startSending(options: SenderOptions): Sender {
  const { urls, secret, patients, lanes, pauseMs, random } = options
  const pools = urls.map(
    (url) => new Pool(url, { connections: lanes, headersTimeout: 4_000, bodyTimeout: 4_000 }),
  )
  const acknowledged = new Set<string>()
  const odd = new Set<number>()
  const counts = { sent: 0, unavailable: 0, broken: 0 }
  const begun = Date.now()
  let stopped = false
  let serial = 0

  /** The current state of a patient: each read is newer than the one before. */
  function render(event: EventDraft): Buffer {
    serial += 1
    const updated = stampOf(begun, serial)
    const data = event.deleted
      ? { id: event.patient }
      : {
          ...EMPTY,
          id: event.patient,
          external_id: `EHR-${event.patient}`,
          first_name: 'Ann',
          last_name: `Reading ${serial}`,
          email: `ann${serial}@example.com`,
          patient_tags: [{ name: `tag ${serial % 7}`, color: '#00ff00' }],
          custom_fields: { serial: String(serial) },
          created_at: '2026-01-01T00:00:00.000000Z',
          updated_at: updated,
        }
    const type = event.deleted ? 'deleted' : 'updated'
    return Buffer.from(
      JSON.stringify({ id: event.id, timestamp: event.timestamp, event_type: type, source: 'patient', data }),
    )
  }

  function draft(): EventDraft {
    serial += 1
    return {
      id: `event-${serial}`,
      timestamp: stampOf(begun, serial),
      patient: `patient-${Math.floor(random() * patients)}`,
      deleted: random() < 0.03,
    }
  }

  async function lane(at: number): Promise<void> {
    while (!stopped) {
      const event = draft()
      for (let attempt = 0; attempt < 6 && !stopped; attempt++) {
        const body = render(event)
        if (await deliver(pools[(at + attempt) % pools.length]!, event, body)) break
        await sleep(50 * (attempt + 1))
      }
      await sleep(pauseMs)
    }
  }

  async function deliver(pool: Pool, event: EventDraft, body: Buffer): Promise<boolean> {
    counts.sent += 1
    try {
      const headers = { 'content-type': 'application/json', [SIGNATURE_HEADER]: sign(body, secret) }
      const answer = await pool.request({ method: 'POST', path: '/webhooks', headers, body })
      await answer.body.dump()
      if (answer.statusCode === 200) {
        acknowledged.add(`${event.id} ${createHash('sha256').update(body).digest('hex')}`)
        return true
      }
      if (answer.statusCode === 503) counts.unavailable += 1
      else odd.add(answer.statusCode)
    } catch {
      counts.broken += 1
    }
    return false
  }

  const running = Promise.all(Array.from({ length: lanes }, (_, at) => lane(at)))
  return {
    acknowledged,
    counts,
    odd,
    async stop() {
      stopped = true
      await running
      await Promise.all(pools.map((pool) => pool.destroy()))
    },
  }
}

interface EventDraft {
  readonly id: string
  readonly timestamp: string
  readonly patient: string
  readonly deleted: boolean
}

const EMPTY = {
  phone_number: '',
  date_birth: '1980-02-29',
  sex_at_birth: 'Female',
  provider: null,
  address: '',
  address2: '',
  city: '',
  state: '',
  zipcode: '00501',
  emergency_contact: null,
}

/** A clock that advances by at least one microsecond per read. */
function stampOf(begun: number, serial: number): string {
  const micros = (begun - 60_000) * 1_000 + serial
  const milliseconds = Math.floor(micros / 1_000)
  return `${new Date(milliseconds).toISOString().slice(0, -1)}${String(micros % 1_000).padStart(3, '0')}Z`
}
