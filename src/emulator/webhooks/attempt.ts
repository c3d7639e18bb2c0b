/**
 * One attempt to deliver one event: written, signed, sent and recorded.
 *
 * Invariant: each attempt that ends while the emulator runs leaves exactly one record, which tells whether and when
 * the event will be tried again.
 */
import { randomUUID } from 'node:crypto'
import { type Clock, stamp } from '../clock.ts'
import type { Settings } from '../http/settings.ts'
import type { World } from '../world/world.ts'
import type { AttemptLog } from './attempt-log.ts'
import { type WebhookEvent, writeEvent, writeForged } from './envelope.ts'
import type { Outcome, Sender } from './sender.ts'
import type { Subjects } from './subjects.ts'
import type { WebhookConfig } from './webhook-configs.ts'
import type { Work } from './work.ts'

/** What all configurations of a team deliver with. */
export interface Office {
  readonly world: World
  readonly settings: Settings
  /** Real time: by it, faults hold events back. */
  readonly clock: Clock
  readonly sender: Sender
  readonly subjects: Subjects
  readonly log: AttemptLog
  readonly work: Work
  /** Aborts when the emulator ends. */
  readonly closing: AbortSignal
}

/** `retryIn` says after which outcome the event is tried again, and in how many milliseconds of the service's time. */
export async function attempt(
  office: Office,
  config: WebhookConfig,
  event: WebhookEvent,
  attempts: number,
  retryIn: (outcome: Outcome) => number | undefined,
): Promise<Outcome> {
  const { world, sender, log } = office
  const body = writeEvent(event, renderingOf(office, config))
  const outcome = await sender.post(config.target_url, body, config.signature_secret)
  if (office.closing.aborted) return outcome
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

/** Sends what another would have to send to be believed, had it the secret; leaves no record. */
export async function forge(
  office: Office,
  config: WebhookConfig,
  event: WebhookEvent,
  secret: string,
): Promise<void> {
  const body = writeForged(event, renderingOf(office, config))
  await office.sender.post(config.target_url, body, secret)
}

function renderingOf({ world, settings, subjects }: Office, { version }: WebhookConfig) {
  return { world, shape: settings.shape, subjects, version }
}
