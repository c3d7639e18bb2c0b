/**
 * One attempt to deliver an event: rendered, signed, sent and recorded.
 *
 * Invariant: each attempt that ends while the emulator runs leaves exactly one record, which says whether and when the
 * event is retried.
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
  retryIn: (outcome: Outcome) => number | undefined,
): Promise<Outcome> {
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
