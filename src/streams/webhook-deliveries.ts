/**
 * Webhook event records, one for each attempt to deliver (specification, section 2.7, which shows none of their
 * fields). They are a log: an entry cannot be fetched by id and is never deleted (law 6).
 *
 * Invariant: if the attempts of an event have one id, that of the event, the row is the latest attempt.
 */
import type { JsonObject } from '../core/json.ts'
import { type Instant, instantOf, microsOf, parseInstant } from '../core/time.ts'
import { readCell } from './parts/cell.ts'
import { column, reference, type Stream, text, time } from './stream.ts'

/** Attempts with the same time are ordered by number, a microsecond apart. */
function attemptedAt({ created_at, attempts }: JsonObject): Instant | null {
  const at = typeof created_at === 'string' ? parseInstant(created_at) : null
  const number = Number(readCell('integer', attempts, 'attempts', []) ?? 0)
  if (at === null && number <= 0) return null
  return instantOf((at === null ? 0 : microsOf(at)) + Math.min(Math.max(number, 0), 999))
}

export const webhookDeliveries: Stream = {
  name: 'webhook_deliveries',
  list: { name: 'webhookDeliveries', path: '/v2/webhooks/events' },
  listedAs: 'events',
  one: null,
  table: 'webhook_deliveries',
  columns: [
    column('reference', 'event_id', 'event'),
    reference('webhook_config_id', 'webhook_configs', 'webhook_config'),
    text('event_type'),
    text('source'),
    text('status'),
    column('integer', 'response_status_code'),
    column('integer', 'attempts'),
    text('error'),
    time('created_at'),
    time('next_retry_at'),
  ],
  children: [],
  otherFields: [],
  analysts: 'nothing',
  entryAt: attemptedAt,
}
