/**
 * One attempt to deliver an event: rendered, signed, sent and recorded.
 *
 * Invariant: each attempt that ends while the emulator runs leaves exactly one record, which says whether and when the
 * event is retried.
 */
import { randomUUID } from 'node:crypto'
import { type Clock, stamp } from '../clock.ts'
import type { Settings } from '../options.ts'
import type { Listing } from '../world/table.ts'
import type { EventSource, World } from '../world/world.ts'
import { type Subjects, type WebhookEvent, writeEvent, writeForged } from './envelope.ts'
import type { AttemptOutcome, Sender } from './sender.ts'
import type { EventType, WebhookConfig } from './webhook-configs.ts'

/** Shared by the deliveries of all configurations of a team. */
export interface DeliveryContext {
  readonly world: World
  readonly settings: Settings
  /** Real time, for faults that delay events. */
  readonly clock: Clock
  readonly sender: Sender
  readonly subjects: Subjects
  readonly log: AttemptLog
  readonly work: Work
  /** Aborts when the emulator ends. */
  readonly closing: AbortSignal
}

/** `retryIn` returns the delay of a retry in milliseconds of the service's time; undefined for none. */
export async function attempt(
  context: DeliveryContext,
  config: WebhookConfig,
  event: WebhookEvent,
  attempts: number,
  retryIn: (outcome: AttemptOutcome) => number | undefined,
): Promise<AttemptOutcome> {
  const { world, sender, log } = context
  const body = writeEvent(event, renderingOf(context, config))
  const outcome = await sender.post(config.target_url, body, config.signature_secret)
  if (context.closing.aborted) return outcome
  const now = world.clock.now()
  const delay = retryIn(outcome)
  log.add({
    id: randomUUID(),
    event_id: event.id,
    webhook_config: config.id,
    event_type: event.type,
    source: event.subject.source,
    status: outcome.acknowledged ? 'succeeded' : 'failed',
    response_status_code: outcome.status,
    attempts,
    error: outcome.error,
    created_at: stamp(now),
    next_retry_at: delay === undefined ? null : stamp(now + delay * 1000),
  })
  return outcome
}

/** Sends a forged version of the event, signed with another secret; leaves no record. */
export async function forge(
  context: DeliveryContext,
  config: WebhookConfig,
  event: WebhookEvent,
  secret: string,
): Promise<void> {
  const body = writeForged(event, renderingOf(context, config))
  await context.sender.post(config.target_url, body, secret)
}

function renderingOf({ world, settings, subjects }: DeliveryContext, { version }: WebhookConfig) {
  return { world, shape: settings.shape, subjects, version }
}

/**
 * The delivery attempts of one team (specification, section 2.7), oldest first.
 *
 * Invariant: records never change; the log contains the newest `KEPT`. A cursor continues after its record even when
 * older ones are gone.
 */
export interface AttemptRecord {
  /** Id of the attempt. */
  readonly id: string
  /** Id of the envelope. */
  readonly event_id: string
  readonly webhook_config: string
  readonly event_type: EventType
  readonly source: EventSource
  readonly status: 'succeeded' | 'failed'
  readonly response_status_code: number | null
  /** 1 for the first attempt of an event. */
  readonly attempts: number
  readonly error: string | null
  readonly created_at: string
  readonly next_retry_at: string | null
}

interface Entry {
  readonly place: number
  readonly record: AttemptRecord
}

export const KEPT = 100_000
/** Records beyond `KEPT` before the log is cut. */
const SLACK = 10_000

export class AttemptLog {
  #entries: Entry[] = []
  #next = 0

  add(record: AttemptRecord): void {
    this.#entries.push({ place: this.#next, record })
    this.#next += 1
    if (this.#entries.length >= KEPT + SLACK) this.#entries = this.#entries.slice(-KEPT)
  }

  /** The attempts that satisfy `matches`. */
  listing(matches: (record: AttemptRecord) => boolean = () => true): Listing<AttemptRecord> {
    const found = this.#entries.slice(-KEPT).filter(({ record }) => matches(record))
    const records = (entries: readonly Entry[]) => entries.map(({ record }) => record)
    return {
      size: found.length,
      slice: (position, limit, newestFirst = false) =>
        records((newestFirst ? found.toReversed() : found).slice(position, position + limit)),
      scan(token, limit) {
        const start = found.findIndex(({ place }) => place >= token)
        if (start < 0) return { rows: [], next: null }
        return {
          rows: records(found.slice(start, start + limit)),
          next: found[start + limit]?.place ?? null,
        }
      },
    }
  }
}

/**
 * Counts the pending deliveries of a team.
 *
 * Invariant: `idle` resolves only when nothing is queued, delayed or in flight; scheduled retries do not count.
 */
export class Work {
  #pending = 0
  #waiting: (() => void)[] = []

  get pending(): number {
    return this.#pending
  }

  begin(): void {
    this.#pending += 1
  }

  end(): void {
    this.#pending -= 1
    if (this.#pending > 0) return
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  async idle(): Promise<void> {
    while (this.#pending > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}
