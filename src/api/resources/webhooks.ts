/**
 * Webhook configurations and event records (specification, sections 2.6, 2.7 and 4.6, which show few of their fields; all
 * paths except that of create are guesses, see `paths`).
 *
 * Invariant: `createWebhookConfig` returns the signature secret, which the service returns only once, or throws an error
 * with a hint.
 */
import { z } from 'zod'
import type { Answer, Client } from '../client.ts'
import { MissingSecretError } from '../errors.ts'
import { DEFAULT_BODY_KEYS } from '../paths.ts'
import {
  type CallOptions,
  create,
  getById,
  type ListOptions,
  list,
  type RecordAnswer,
  recordAnswer,
  remove,
  type TypedScan,
  update,
} from './resource.ts'
import { Id, identified, Optional, Reference } from './typed.ts'

/** Only `id`, `target_url` and `signature_secret` are shown (section 2.6). */
export const WebhookConfig = z.looseObject({
  ...identified,
  target_url: Optional,
  event_types: z.array(z.string()).nullish(),
  sources: z.array(z.string()).nullish(),
  is_active: z.boolean().nullish(),
  created_at: Optional,
  updated_at: Optional,
})

export type WebhookConfig = z.infer<typeof WebhookConfig>

/** Only the create operation returns the secret; it cannot be fetched later. */
export const CreatedWebhookConfig = WebhookConfig.extend({ signature_secret: z.string().min(1) })

export type CreatedWebhookConfig = z.infer<typeof CreatedWebhookConfig>

/** Fields of a request that creates or updates a configuration; names other than `target_url` are not shown. */
export interface WebhookConfigFields {
  readonly target_url: string
  /** `created`, `updated`, `deleted`. */
  readonly event_types?: readonly string[]
  /** `document`, `form`, `packet`, `patient`, `response`, `packet_response`. */
  readonly sources?: readonly string[]
  readonly is_active?: boolean
}

const Count = z.number().nullish()

/** A webhook event record: one attempt to deliver (section 2.7; its fields are not shown). */
export const WebhookDelivery = z.looseObject({
  /** Perhaps the attempt's own, not that of the event. */
  ...identified,
  event_id: Id.nullish(),
  webhook_config: Reference,
  webhook_config_id: Id.nullish(),
  event_type: Optional,
  source: Optional,
  status: Optional,
  response_status_code: Count,
  attempts: Count,
  error: Optional,
  created_at: Optional,
  next_retry_at: Optional,
})

export type WebhookDelivery = z.infer<typeof WebhookDelivery>

/** Lists the team's configurations (section 4.6), without their secrets. */
export function listWebhookConfigs(client: Client, options?: ListOptions): TypedScan<WebhookConfig> {
  return list(client, 'webhookConfigs', 'webhooks', WebhookConfig, options)
}

/**
 * `POST /v2/webhooks` (section 4.6): creates a configuration and returns it with its `signature_secret`, which cannot
 * be fetched later (section 2.6). Throws `MissingSecretError` if the answer has no secret; `ApiError` with verdict `stop`
 * if the fields are refused, or if it is unknown whether the configuration was created.
 */
export async function createWebhookConfig(
  client: Client,
  fields: WebhookConfigFields,
  options?: CallOptions,
): Promise<RecordAnswer<CreatedWebhookConfig>> {
  const made = await create(client, 'webhookConfigs', WebhookConfig, { body: fields }, options)
  const created = recordAnswer(made.answer, CreatedWebhookConfig)
  if (created !== null) return created
  const id = made.record?.id ?? made.record?.uid ?? null
  throw new MissingSecretError(client.paths.webhookConfigs, id === null ? null : String(id))
}

/** One configuration by id (section 4.6), without its secret; verdict `gone` if the id is unknown. */
export function getWebhookConfig(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<RecordAnswer<WebhookConfig>> {
  return getById(client, 'webhookConfig', WebhookConfig, id, options)
}

/** Full update by id, with PUT (section 4.6). Returns the changed configuration; throws as `changeWebhookConfig`. */
export function replaceWebhookConfig(
  client: Client,
  id: string,
  fields: WebhookConfigFields,
  options?: CallOptions,
): Promise<RecordAnswer<WebhookConfig>> {
  return update(client, 'PUT', 'webhookConfig', WebhookConfig, id, fields, options)
}

/**
 * Partial update by id, with PATCH: changes only the given fields (section 4.6). Returns the changed configuration.
 * Throws `ApiError`: `gone` if the id is unknown, `dead_letter` if the fields are refused, `stop` if it is unknown
 * whether the change took effect.
 */
export function changeWebhookConfig(
  client: Client,
  id: string,
  fields: Partial<WebhookConfigFields>,
  options?: CallOptions,
): Promise<RecordAnswer<WebhookConfig>> {
  return update(client, 'PATCH', 'webhookConfig', WebhookConfig, id, fields, options)
}

/** Deletes by id, which stops all future events to it (section 4.6); verdict `gone` if the id is unknown. */
export function deleteWebhookConfig(client: Client, id: string, options?: CallOptions): Promise<void> {
  return remove(client, 'webhookConfig', id, options)
}

/**
 * `POST /v2/webhooks/events/test` (section 4.6): has the service send a simulated event to the configuration's URL.
 * Returns the service's answer, whose body is not specified. The request has the id under `bodyKeys.webhookTestId`
 * (default `id`). Throws `ApiError`: `gone` if the id is unknown, `dead_letter` if the service refuses to send.
 */
export function testWebhookConfig(client: Client, id: string, options: CallOptions = {}): Promise<Answer> {
  const body = { [client.bodyKeys.webhookTestId ?? DEFAULT_BODY_KEYS.webhookTestId]: id }
  return client.request('POST', client.paths.webhookTest, { ...options, body, one: true })
}

/**
 * Lists the webhook event records, that is attempts to deliver (section 4.6, which does not show the path:
 * `paths.webhookDeliveries`), page by page.
 */
export function listWebhookDeliveries(client: Client, options?: ListOptions): TypedScan<WebhookDelivery> {
  return list(client, 'webhookDeliveries', 'events', WebhookDelivery, options)
}
