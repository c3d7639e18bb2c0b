/**
 * Webhook configurations, delivery attempts and the test of a configuration (specification, sections 2.6, 2.7, 4.6).
 *
 * Invariant: only the answer to its creation contains the secret of a configuration. PUT resets missing fields, PATCH
 * changes given fields, and neither changes the secret.
 */
import {
  type ConfigFields,
  DEFAULTS,
  EVENT_TYPES,
  showConfig,
  showCreated,
} from '../../webhooks/webhook-configs.ts'
import { EVENT_SOURCES } from '../../world/world.ts'
import { type Answer, type Failure, failure, NOT_FOUND } from '../answer.ts'
import { type Call, pathId, type Route } from '../call.ts'
import { listPage } from '../paging.ts'

const FILTERS = ['webhook_config', 'status', 'source', 'event_type'] as const

function create(call: Call): Answer {
  const read = readConfigFields(call)
  if ('type' in read) return read
  const { target_url } = read
  if (target_url === undefined) return failure(400, 'Validation error.', 'target_url')
  const config = call.team.webhooks.configs.create({ ...DEFAULTS, ...read, target_url }, call.version)
  return { type: 'record', status: 201, resource: 'webhooks', record: showCreated(config) }
}

function retrieve(call: Call): Answer {
  const { table } = call.team.webhooks.configs
  const id = pathId(call, table.ids)
  const config = id === undefined ? undefined : table.get(id)
  if (config === undefined) return failure(404, NOT_FOUND.webhooks)
  return { type: 'record', status: 200, resource: 'webhooks', record: showConfig(config) }
}

function change(call: Call, full: boolean): Answer {
  const { configs } = call.team.webhooks
  const id = pathId(call, configs.table.ids)
  if (id === undefined || configs.table.get(id) === undefined) return failure(404, NOT_FOUND.webhooks)
  const read = readConfigFields(call)
  if ('type' in read) return read
  if (full && read.target_url === undefined) return failure(400, 'Validation error.', 'target_url')
  const fields: Partial<ConfigFields> = full ? { ...DEFAULTS, ...read } : read
  const config = configs.change(id, fields)
  if (config === undefined) return failure(404, NOT_FOUND.webhooks)
  return { type: 'record', status: 200, resource: 'webhooks', record: showConfig(config) }
}

function remove(call: Call): Answer {
  const { table } = call.team.webhooks.configs
  const id = pathId(call, table.ids)
  const gone = id === undefined ? undefined : table.remove(id)
  return gone === undefined ? failure(404, NOT_FOUND.webhooks) : { type: 'empty', status: 204 }
}

function listEvents(call: Call): Answer {
  const { configs, attempts } = call.team.webhooks
  const wanted = FILTERS.flatMap((name) => {
    const text = call.query.get(name)
    if (text === null) return []
    const id = () => call.shape.id(text, configs.table.ids)?.toLowerCase()
    return [{ name, text: name === 'webhook_config' ? id() : text }]
  })
  const listing =
    wanted.length === 0
      ? attempts.listing()
      : attempts.listing((record) => wanted.every(({ name, text }) => record[name] === text))
  return listPage(call, 'events', listing, FILTERS, (record) => ({ ...record }))
}

async function test(call: Call): Promise<Answer> {
  const read = readTestedId(call)
  if (typeof read !== 'string') return read
  const { webhooks } = call.team
  const id = call.shape.id(read, webhooks.configs.table.ids)
  const config = id === undefined ? undefined : webhooks.configs.table.get(id)
  if (config === undefined) return failure(404, NOT_FOUND.webhooks)
  return { type: 'record', status: 200, resource: 'events', record: await webhooks.test(config) }
}

export const WEBHOOK_ROUTES: readonly Route[] = [
  {
    path: '/v2/webhooks',
    methods: {
      GET: (call) => listPage(call, 'webhooks', call.team.webhooks.configs.table, [], showConfig),
      POST: create,
    },
  },
  // Before `:id`, so that `events` is never taken for an id.
  { path: '/v2/webhooks/events', methods: { GET: listEvents } },
  { path: '/v2/webhooks/events/test', methods: { POST: test } },
  {
    path: '/v2/webhooks/:id',
    methods: {
      GET: retrieve,
      PUT: (call) => change(call, true),
      PATCH: (call) => change(call, false),
      DELETE: remove,
    },
  },
]

/**
 * Reads the bodies of a webhook configuration (specification, section 2.6) and of a test, with the validation of the
 * service.
 *
 * Invariant: the result contains only fields of a configuration, each of its type and with known values; unknown fields
 * are ignored.
 */
const READERS: Readonly<Record<keyof ConfigFields, (value: unknown) => boolean>> = {
  target_url: isTarget,
  event_types: (value) => areOf(EVENT_TYPES, value),
  sources: (value) => areOf(EVENT_SOURCES, value),
  is_active: (value) => typeof value === 'boolean',
}

/** The fields of the body, or the failure to answer. */
function readConfigFields({ body }: Call): Partial<ConfigFields> | Failure {
  const value = parsed(body)
  if (!isObject(value)) return failure(400, 'Validation error.', 'non_field_errors')
  const fields: Record<string, unknown> = {}
  for (const [name, fits] of Object.entries(READERS)) {
    if (!Object.hasOwn(value, name)) continue
    if (!fits(value[name])) return failure(400, 'Validation error.', name)
    fields[name] = value[name]
  }
  return fields as Partial<ConfigFields>
}

/** The id of the configuration to test as written, or the failure to answer. */
function readTestedId({ body }: Call): string | Failure {
  const value = body.length === 0 ? {} : parsed(body)
  if (!isObject(value)) return failure(400, 'Validation error.', 'non_field_errors')
  const { id } = value
  if (typeof id === 'string' && id !== '') return id
  // The number can exceed the precision of a double: take its digits from the text.
  const digits = typeof id === 'number' ? /"id"\s*:\s*(\d+)/.exec(body.toString('utf8'))?.[1] : undefined
  return digits ?? failure(400, 'Webhook config ID is required.', 'id')
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTarget(value: unknown): boolean {
  return typeof value === 'string' && /^https?:\/\//i.test(value) && URL.canParse(value)
}

function areOf(words: readonly string[], value: unknown): boolean {
  return Array.isArray(value) && value.every((word) => words.includes(word))
}
