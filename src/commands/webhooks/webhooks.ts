/**
 * `intake-sync webhooks`: the service's webhook configurations and their deliveries. `list` shows configurations, `events` the
 * newest delivery attempts.
 *
 * Invariant: neither needs a database. A field that the service does not return is shown as absent. `events` reads all
 * attempts, since the service does not promise an order; memory is bounded by the limit plus one page.
 */
import { Command, InvalidArgumentError, Option } from 'commander'
import { listWebhookConfigs, listWebhookDeliveries } from '../../api/resources/webhooks.ts'
import { readConfig } from '../../config/config.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { parseInstant } from '../../core/time.ts'
import { type Context, oneTeam, openService, printJson } from '../context.ts'
import { wholeNumber } from '../options.ts'
import { shown } from '../printable.ts'
import { fittedTable } from '../terminal.ts'
import { deleteWebhook, type OneOptions, testWebhook, updateWebhook } from './change.ts'
import { type CreateOptions, createWebhook } from './create.ts'
import { cellsOf, eventsOption, shownConfig, sourcesOption } from './fields.ts'
import { storedSecrets } from './store.ts'

export function webhooksCommand(context: Context): Command {
  const create = command('create', 'create a configuration; its secret is stored, and shown once')
    .requiredOption('--url <url>', 'where the service sends events: https://host/webhooks')
    .addOption(eventsOption())
    .addOption(sourcesOption())
    .addHelpText('after', CREATE_HELP)
    .action((options: CreateOptions) => createWebhook(context, options))
  const list = command('list', 'the configurations, and whether their secrets are stored')
    .addHelpText('after', LIST_HELP)
    .action((options: object) => listWebhooks(context, options))
  const update = command('update', 'change the given fields of a configuration')
    .argument('<id>', 'id of the configuration: see webhooks list', usableId)
    .option('--url <url>', 'where the service sends events')
    .addOption(eventsOption())
    .addOption(sourcesOption())
    .addOption(new Option('--active <flag>', 'whether events are sent').choices(['true', 'false']))
    .option('--replace', 'a full update: the service sets the other fields to its defaults')
    .action((id: string, options: object) => updateWebhook(context, id, options))
  const remove = command(
    'delete',
    'delete a configuration without confirmation, and retire its stored secret',
  )
    .argument('<id>', 'id of the configuration: see webhooks list', usableId)
    .action((id: string, options: object) => deleteWebhook(context, id, options))
  const events = command('events', 'the newest delivery attempts')
    .option('--limit <number>', 'number of attempts', wholeNumber, 20)
    .action((options: EventsOptions) => listEvents(context, options))
  const test = command('test', 'have the service send a test event')
    .argument('<id>', 'id of the configuration: see webhooks list', usableId)
    .action((id: string, options: object) => testWebhook(context, id, options))
  const group = new Command('webhooks').description('webhook configurations of the service, and deliveries')
  for (const each of [create, list, update, remove, events, test]) group.addCommand(each)
  return group
}

function command(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--team <name>', 'the team of the configuration to use')
    .option('--json', 'print one JSON document')
}

/** Rejects ids that cannot be part of a path. */
function usableId(text: string): string {
  if (text.trim() !== '' && !/^(?:\.|%2e){1,2}$/i.test(text)) return text
  throw new InvalidArgumentError('Use an id that webhooks list shows.')
}

/** Column numbers, of configurations and of deliveries. */
const [URL_COLUMN, EVENTS, SOURCES] = [1, 2, 3]
const [WEBHOOK, ERROR] = [6, 7]

async function listWebhooks(context: Context, options: OneOptions): Promise<void> {
  const config = readConfig(context.env)
  const team = oneTeam(config, options.team)
  await using client = openService(context, config, team)
  const records: JsonObject[] = []
  for await (const page of listWebhookConfigs(client)) records.push(...page.raw.filter(isObject))
  const stored = await storedSecrets(context, config, team.name)
  const rows = records.map(shownConfig).map((row) => ({
    ...row,
    secret: stored === null ? 'unknown' : (stored.get(row.id ?? '') ?? 'none'),
  }))
  if (options.json) return printJson(context, { webhooks: rows })
  const head = ['id', 'url', 'events', 'sources', 'active', 'secret']
  const cells = rows.map((row) => [...cellsOf(row), row.secret])
  const text = fittedTable(context, [head, ...cells], URL_COLUMN, [SOURCES, EVENTS])
  context.stdout.write(rows.length === 0 ? 'no webhook configurations\n' : text)
}

interface EventsOptions extends OneOptions {
  readonly limit: number
}

interface Delivery {
  /** Text that sorts by time; empty if the service returns no time. */
  readonly at: string
  /** Its place in the list. */
  readonly place: number
  readonly record: JsonObject
}

async function listEvents(context: Context, options: EventsOptions): Promise<void> {
  const config = readConfig(context.env)
  await using client = openService(context, config, oneTeam(config, options.team))
  let newest: Delivery[] = []
  let seen = 0
  for await (const page of listWebhookDeliveries(client)) {
    for (const record of page.raw.filter(isObject)) {
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

/** Newest first; deliveries without a time are last, in the order of the list. */
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
  const fields = {
    ...record,
    id: record.id ?? record.uid,
    webhook_config: record.webhook_config ?? record.webhook_config_id,
    created_at: record.created_at ?? record.timestamp,
  } as JsonObject
  return Object.fromEntries(FIELDS.map((name) => [name, cell(fields[name])])) as ShownDelivery
}

const CREATE_HELP = `
Without --events and --sources, the service uses its defaults. Needs
INTAKE_ENCRYPTION_KEY (32 bytes in base64, as printed by openssl rand -base64
32) and a migrated warehouse: the service returns the secret only once, so it
is stored before success is reported. If it cannot be stored, the configuration
is deleted again.`

const LIST_HELP = `
Needs no database; without DATABASE_URL the column "secret" says unknown.`
