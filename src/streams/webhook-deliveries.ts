/**
 * Webhook event records, one for each attempt to deliver (specification, section 2.7, which shows none of their
 * fields). They are a log: there is no way to ask for one by its id, and none is ever said to be deleted (law 6).
 */
import { column, type Stream, text, time } from './stream.ts'

export const webhookDeliveries: Stream = {
  name: 'webhook_deliveries',
  list: 'webhookDeliveries',
  listedAs: 'events',
  one: null,
  table: 'webhook_deliveries',
  columns: [
    column('reference', 'event_id', 'event'),
    column('reference', 'webhook_config_id', 'webhook_config'),
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
}
