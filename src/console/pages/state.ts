/** Pages that only read: overview, streams, health. */
import type { FastifyInstance } from 'fastify'
import { entityDiagram } from '../../streams/diagram.ts'
import { plural } from '../format.ts'
import type { Kept } from '../readings.ts'
import { type ConsoleOptions, PATIENCE_MS, type Shared } from '../shared.ts'
import { readFindings, runBars } from './streams.ts'

const VIEWER = { config: { role: 'viewer' } } as const
/** A page of a hundred teams would be four million characters. */
const TEAMS_AT_ONCE = 10

export function servePages(app: FastifyInstance, shared: Shared): void {
  const { options, readings, show } = shared

  app.get('/', VIEWER, async (request, reply) => {
    const teams = await readings.overview.within(PATIENCE_MS)
    const page = { view: 'overview', title: 'Overview', waits: teams === null, from: [teams] }
    return show(request, reply, { ...page, data: { teams } })
  })

  app.get('/streams', VIEWER, async (request, reply) => {
    const [status, history] = await Promise.all([
      readings.status.within(PATIENCE_MS),
      readings.history.within(PATIENCE_MS),
    ])
    const all = status === null ? [] : status.teams.map(({ team }) => team)
    const { from: first = '' } = request.query as Readonly<Record<string, unknown>>
    const at = Math.max(0, all.indexOf(String(first)))
    const teams = all.slice(at, at + TEAMS_AT_ONCE)
    const parts = all.length > TEAMS_AT_ONCE ? all.filter((_, place) => place % TEAMS_AT_ONCE === 0) : []
    const of = (team: string, stream: string) =>
      history?.find((each) => each.team === team && each.stream === stream) ?? null
    const data = { teams, parts, status, of, runBars, maxAgeSeconds: options.maxAgeHours * 3_600 }
    const waits = status === null || history === null
    return show(request, reply, { view: 'streams', title: 'Streams', waits, data, from: [status, history] })
  })

  app.get('/streams/tables', VIEWER, (request, reply) =>
    show(request, reply, { view: 'tables', title: 'Tables' }),
  )
  app.get('/streams/tables.svg', VIEWER, (_request, reply) =>
    reply.type('image/svg+xml').send(entityDiagram()),
  )

  app.get('/streams/:team/:stream', VIEWER, async (request, reply) => {
    const { team, stream } = request.params as { team: string; stream: string }
    const history = (await readings.history.get()).filter(
      (each) => each.team === team && each.stream === stream,
    )
    const findings = await readings.look((db) => readFindings(db, team, stream))
    const data = { team, stream, runs: history[0]?.runs.toReversed() ?? [], ...findings }
    return show(request, reply, { view: 'stream', title: `${stream} of ${team}`, data })
  })

  app.get('/health', VIEWER, async (request, reply) => {
    const [checked, server] = await Promise.all([
      readings.checks.within(PATIENCE_MS),
      readings.server.within(PATIENCE_MS),
    ])
    const { settings, version } = options
    const data = { checked, server, settings, version, node: process.version, kept: keptOf(options) }
    const waits = checked === null || server === null
    return show(request, reply, { view: 'health', title: 'Health', waits, data, from: [checked, server] })
  })
}

interface KeptFor {
  readonly what: string
  readonly name: Kept
  readonly how: string
  /** The setting that says for how long; null for none. */
  readonly setting: string | null
}

function keptOf({ inboxDays, retention: { historyDays, runDays } }: ConsoleOptions): readonly KeptFor[] {
  const days = (count: number | null) => (count === null ? 'for ever' : plural(count, 'day'))
  const runs = { how: days(runDays), setting: 'INTAKE_RUN_DAYS' }
  return [
    {
      what: 'events of the inbox, once they are done',
      name: 'events',
      how: days(inboxDays),
      setting: 'INTAKE_INBOX_DAYS',
    },
    { what: 'superseded payloads', name: 'history', how: days(historyDays), setting: 'INTAKE_HISTORY_DAYS' },
    { what: 'runs and verifications, but the newest of each stream', name: 'runs', ...runs },
    { what: 'settled dead letters', name: 'deadLetters', ...runs },
    { what: 'audited actions', name: 'audit', how: '6 years', setting: null },
  ]
}
