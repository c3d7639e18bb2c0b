/**
 * Webhook events, that is attempts to deliver (specification, sections 2.7 and 4.6).
 *
 * Invariant: reads only; every call goes through the client's shared request budget.
 */
import type { Client } from '../client.ts'
import { WebhookDelivery } from '../shapes/webhook-delivery.ts'
import { type ListOptions, list, type TypedScan } from './resource.ts'

/** Lists the attempts (section 4.6, which does not show the path: `paths.webhookDeliveries`), page by page. */
export function listWebhookDeliveries(client: Client, options?: ListOptions): TypedScan<WebhookDelivery> {
  return list(client, 'webhookDeliveries', 'events', WebhookDelivery, options)
}
