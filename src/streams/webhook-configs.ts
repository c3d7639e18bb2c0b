/**
 * Webhook configurations (specification, section 2.6). Which fields select event types and sources is not shown.
 *
 * Invariant: a signature secret reaches no table: neither these, nor the raw ones, nor what is set aside.
 */
import { isObject } from '../core/json.ts'
import { column, type Stream, text, time } from './stream.ts'

export const webhookConfigs: Stream = {
  name: 'webhook_configs',
  list: 'webhookConfigs',
  listedAs: 'webhooks',
  one: 'webhookConfig',
  table: 'webhook_configs',
  columns: [
    text('target_url'),
    column('texts', 'event_types'),
    column('texts', 'sources'),
    column('boolean', 'is_active'),
    time('created_at'),
  ],
  children: [],
  // Orders the states of a configuration, and has no column.
  otherFields: ['updated_at'],
  cleanse: (came) => withoutSecrets(came, 0),
}

/** Deeper than any record that is not refused for its depth. */
const DEEPEST = 500

/** `signature_secret`, and whatever else the service may call it; a flag that says there is one tells nothing. */
function isSecret(name: string, value: unknown): boolean {
  return /secret/i.test(name) && value !== null && typeof value !== 'boolean'
}

function withoutSecrets(value: unknown, depth: number): unknown {
  if (depth > DEEPEST) return value
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, depth + 1))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, item]) => !isSecret(name, item))
      .map(([name, item]) => [name, withoutSecrets(item, depth + 1)]),
  )
}
