/** The webhook that `init` creates on demand. Invariant: one that is there, with its secret stored, is not made again. */
import { listWebhookConfigs } from '../../api/resources/webhooks.ts'
import type { Config } from '../../config/config.ts'
import { isObject } from '../../core/json.ts'
import { secretStates } from '../../warehouse/webhook-secrets.ts'
import { type Context, oneTeam, openService, openWarehouse } from '../context.ts'
import { createWebhook } from '../webhooks/create.ts'
import { shownConfig } from '../webhooks/fields.ts'
import { withStore } from '../webhooks/store.ts'

export interface WebhookResult {
  readonly id: string
  readonly created: boolean
}

export async function ensureWebhook(context: Context, config: Config, url: string): Promise<WebhookResult> {
  const team = oneTeam(config, undefined)
  await using warehouse = await openWarehouse(context, config)
  await using client = openService(context, config, team)
  const stored = await withStore(warehouse.url, (db) => secretStates(db, team.name))
  for await (const page of listWebhookConfigs(client)) {
    for (const { id, target_url } of page.raw.filter(isObject).map(shownConfig)) {
      if (id !== null && target_url === url && stored.get(id) === 'stored') return { id, created: false }
    }
  }
  // Its secret is stored; it is shown nowhere else than by `webhooks create` itself.
  let document = ''
  const stdout = { write: (text: string | Uint8Array) => (document += String(text)) }
  await createWebhook({ ...context, stdout }, { url, json: true })
  return { id: String((JSON.parse(document) as { id: unknown }).id), created: true }
}
