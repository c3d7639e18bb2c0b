/**
 * Webhook configurations, delivery attempts and the test of a configuration (specification, sections 2.6, 2.7, 4.6).
 *
 * Invariant: only the answer to its creation contains the secret of a configuration. PUT resets missing fields, PATCH
 * changes given fields, and neither changes the secret.
 */
import { type ConfigFields, DEFAULTS, showConfig, showCreated } from '../../webhooks/webhook-configs.ts'
import { type Answer, failure, NOT_FOUND } from '../answer.ts'
import { type Call, pathId, type Route } from '../call.ts'
import { listPage } from '../paging.ts'
import { readConfigFields, readTestedId } from './webhook-body.ts'

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
