/**
 * Webhook configurations (specification, section 2.6). Which fields select event types and sources is not shown.
 *
 * Invariant: a signature secret is stored in no table: neither `intake`, nor `intake_raw`, nor dead letters.
 */
import { isObject, TOO_DEEP } from '../core/json.ts'
import { column, type Stream, text, time } from './stream.ts'

export const webhookConfigs: Stream = {
  name: 'webhook_configs',
  list: { name: 'webhookConfigs', path: '/v2/webhooks' },
  listedAs: 'webhooks',
  one: { name: 'webhookConfig', path: '/v2/webhooks/{id}' },
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
  analysts: 'nothing',
  cleanse: (input) => withoutSecrets(input, 0),
}

/** A record with more levels is refused; in its dead letter, `TOO_DEEP` replaces what is deeper. */
const DEEPEST = 500

/** `signature_secret`, or a similar name; a boolean flag reveals nothing and stays. */
function isSecret(name: string, value: unknown): boolean {
  return /secret/i.test(name) && value !== null && typeof value !== 'boolean'
}

function withoutSecrets(value: unknown, depth: number): unknown {
  if (depth > DEEPEST) return typeof value === 'object' && value !== null ? TOO_DEEP : value
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item, depth + 1))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, item]) => !isSecret(name, item))
      .map(([name, item]) => [name, withoutSecrets(item, depth + 1)]),
  )
}
