/**
 * A service of webhook configurations, kept in memory, for the commands that manage them.
 *
 * Invariant: a signature secret is in the answer of create and in no other; all secrets differ.
 */
import type http from 'node:http'
import { json, type Received, startService } from '../../api/support/service.ts'
import type { Variables } from '../../support/cli.ts'

export interface WebhooksService extends AsyncDisposable {
  readonly received: Received[]
  readonly configs: Record<string, unknown>[]
  deliveries: unknown[]
  /** Secrets handed out, oldest first. */
  readonly secrets: readonly string[]
  /** Sees each request first; returns true when it has answered or will answer. */
  interfere: (request: Received, response: http.ServerResponse) => boolean | Promise<boolean>
  readonly env: Variables
}

export async function startWebhooksService(): Promise<WebhooksService> {
  const configs: Record<string, unknown>[] = []
  const secrets: string[] = []
  const service = await startService(async (request, response) => {
    if (!(await stand.interfere(request, response))) answer(request, response)
  })
  const stand: WebhooksService = {
    received: service.received,
    configs,
    deliveries: [],
    secrets,
    interfere: () => false,
    env: { INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'the-key', INTAKE_API_SECRET: 'the-secret' },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }

  function answer(request: Received, response: http.ServerResponse): void {
    const [body, status] = answerTo(request)
    if (body === null) response.writeHead(status).end()
    else json(response, body, status)
  }

  function answerTo({ method, url, body }: Received): [body: unknown, status: number] {
    const [, , , id] = url.split('/')
    const sent = body.length === 0 ? {} : JSON.parse(String(body))
    const at = configs.findIndex((config) => config.id === decodeURIComponent(sent.id ?? id ?? ''))
    if (url === '/v2/webhooks/events') return [stand.deliveries, 200]
    if (id === undefined) return method === 'GET' ? [{ results: configs, next: null }, 200] : created(sent)
    const config = configs[at]
    if (config === undefined) return [{ detail: 'Webhook config not found.' }, 404]
    if (url === '/v2/webhooks/events/test') return [{}, 200]
    if (method === 'DELETE') configs.splice(at, 1)
    if (method === 'PUT') configs[at] = { id: config.id, ...sent }
    if (method === 'PATCH') Object.assign(config, sent)
    return method === 'DELETE' ? [null, 204] : [configs[at], 200]
  }

  function created(sent: object): [body: unknown, status: number] {
    const config = { id: `c-${configs.length + 1}`, is_active: true, ...sent }
    configs.push(config)
    secrets.push(`whsec_canary-${secrets.length + 1}-${'x'.repeat(20)}`)
    return [{ ...config, signature_secret: secrets.at(-1) }, 201]
  }
  return stand
}

/** Requests so far, as `POST /v2/webhooks`. */
export function askedOf({ received }: WebhooksService): string[] {
  return received.map(({ method, url }) => `${method} ${url}`)
}
