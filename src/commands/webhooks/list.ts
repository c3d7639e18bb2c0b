/**
 * `intake-sync webhooks list` and `events`: configurations, and the newest attempts to deliver.
 *
 * Invariant: neither needs a database; what the service does not say is shown as absent. The newest attempts are
 * found among all of them, since a list's order is not promised, in memory for a few times as many as are shown.
 */
import { listWebhookConfigs } from '../../api/resources/webhook-configs.ts'
import { listWebhookDeliveries } from '../../api/resources/webhook-deliveries.ts'
import { readConfig } from '../../config/config.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { parseInstant } from '../../core/time.ts'
import { type Context, printJson } from '../context.ts'
import { oneTeam, openService } from '../service.ts'
import { shown } from '../terminal/printable.ts'
import { fittedTable } from '../terminal/terminal.ts'
import type { OneOptions } from './change.ts'
import { cellsOf, shownConfig } from './fields.ts'
import { heldSecrets } from './store.ts'

/** Places of columns, of configurations and of deliveries. */
const [URL_COLUMN, EVENTS, SOURCES] = [1, 2, 3]
const [WEBHOOK, ERROR] = [6, 7]

export async function listWebhooks(context: Context, options: OneOptions): Promise<void> {
  const config = readConfig(context.env)
  const team = oneTeam(config, options.team)
  await using client = openService(context, config, team)
  const records: JsonObject[] = []
  for await (const page of listWebhookConfigs(client)) records.push(...page.records.filter(isObject))
  const held = await heldSecrets(context, config, team.name)
  const rows = records.map(shownConfig).map((row) => ({
    ...row,
    secret: held === null ? 'unknown' : (held.get(row.id ?? '') ?? 'none'),
  }))
  if (options.json) return printJson(context, { webhooks: rows })
  const head = ['id', 'url', 'events', 'sources', 'active', 'secret']
  const cells = rows.map((row) => [...cellsOf(row), row.secret])
  const text = fittedTable(context, [head, ...cells], URL_COLUMN, [SOURCES, EVENTS])
  context.stdout.write(rows.length === 0 ? 'no webhook configurations\n' : text)
}

export interface EventsOptions extends OneOptions {
  readonly limit: number
}

interface Delivery {
  /** In text that sorts by time; empty when it is not told. */
  readonly at: string
  /** Its place in the list. */
  readonly place: number
  readonly record: JsonObject
}

export async function listEvents(context: Context, options: EventsOptions): Promise<void> {
  const config = readConfig(context.env)
  await using client = openService(context, config, oneTeam(config, options.team))
  let newest: Delivery[] = []
  let seen = 0
  for await (const page of listWebhookDeliveries(client)) {
    for (const record of page.records.filter(isObject)) {
      const at = parseInstant(shown(record.created_at ?? record.timestamp)) ?? ''
      newest.push({ at, place: seen++, record })
    }
    newest = firstOf(newest, options.limit)
  }
  const rows = newest.map(({ record }) => shownDelivery(record))
  if (options.json) return printJson(context, { total: seen, events: rows })
  const head = ['created', 'status', 'code', 'attempts', 'event', 'source', 'webhook', 'error']
  const cells = rows.map((row) => [
    row.created_at ?? '-',
    row.status ?? '-',
    row.response_status_code ?? '-',
    row.attempts ?? '-',
    row.event_type ?? '-',
    row.source ?? '-',
    row.webhook_config ?? '-',
    row.error ?? '',
  ])
  const more = seen > rows.length ? `the newest ${rows.length} of ${seen}; --limit shows more\n` : ''
  context.stdout.write(
    rows.length === 0
      ? 'no deliveries\n'
      : `${fittedTable(context, [head, ...cells], ERROR, [WEBHOOK])}${more}`,
  )
}

/** Newest first; those without a time keep the list's order, at the end. */
function firstOf(deliveries: readonly Delivery[], limit: number): Delivery[] {
  const order = (a: Delivery, b: Delivery) => (a.at === b.at ? a.place - b.place : a.at < b.at ? 1 : -1)
  return deliveries.toSorted(order).slice(0, limit)
}

const FIELDS = [
  'id',
  'event_id',
  'webhook_config',
  'event_type',
  'source',
  'status',
  'response_status_code',
  'attempts',
  'error',
  'created_at',
  'next_retry_at',
] as const

type ShownDelivery = Record<(typeof FIELDS)[number], string | number | null>

/** Each field as text or a number, a reference as its id. */
function shownDelivery(record: JsonObject): ShownDelivery {
  const cell = (value: unknown) => {
    if (typeof value === 'number') return value
    return shown(isObject(value) ? (value.id ?? value.uid ?? value) : value) || null
  }
  const told = {
    ...record,
    id: record.id ?? record.uid,
    webhook_config: record.webhook_config ?? record.webhook_config_id,
    created_at: record.created_at ?? record.timestamp,
  } as JsonObject
  return Object.fromEntries(FIELDS.map((name) => [name, cell(told[name])])) as ShownDelivery
}
