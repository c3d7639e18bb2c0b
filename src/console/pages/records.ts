/**
 * Where a record came from: the states, events, dead letters and refetches that `explain` finds.
 *
 * Invariant: names of fields, hashes, times and origins; the payloads and changed values that `explain` returns stay here.
 * A steward may ask for one value of the current state: the audit has a row of it before it is shown.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { canonicalText } from '../../core/canonical.ts'
import { isObject, parseText } from '../../core/json.ts'
import { type Explained, explain } from '../../operate/explain.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { readTeams } from '../../warehouse/teams.ts'
import { Refusal } from '../access.ts'
import { mayAct } from '../sessions.ts'
import { PATIENCE_MS, type Shared } from '../shared.ts'
import { audit, textIn } from './visits.ts'

export function serveRecords(app: FastifyInstance, shared: Shared): void {
  const { options, readings, show } = shared

  /** Null for an unknown team or stream. */
  async function explained(team: string, stream: string, id: string): Promise<Explained | null> {
    const known = (await readings.look(readTeams)).find((each) => each.name === team && !each.isRemoved)
    const declared = ALL_STREAMS.find(({ name }) => name === stream)
    if (known === undefined || declared === undefined) return null
    const version = options.teams.find(({ name }) => name === team)?.apiVersion ?? 'v2.1'
    return await explain(options.url, { teamId: known.teamId, stream: declared, id }, version)
  }

  app.post('/records/value', { config: { role: 'steward' } }, async (request, reply) => {
    const [team, stream, id, path] = ['team', 'stream', 'id', 'path'].map((name) => textIn(request, name))
    const found = await explained(team!, stream!, id!).catch((error: unknown) => {
      if (isUnknown(error)) return null
      throw error
    })
    const leaf = found === null ? undefined : leavesOf(found).find((each) => each.path === path)
    if (leaf === undefined) throw new Refusal(404, 'there is no such value')
    await audit(shared, request.visitor!, {
      ...{ action: 'value', object: `${team}/${stream}/${id}`, detail: { field: leaf.path } },
    })
    const data = { asked: { team, stream, id }, path: leaf.path, value: leaf.value.slice(0, MAX_LENGTH) }
    return show(request, reply, { view: 'value', title: 'One value', data })
  })

  app.get('/events', { config: { role: 'viewer' } }, async (request, reply) => {
    const { team = '', id = '' } = request.query as Readonly<Record<string, string>>
    const asked = { team, id: String(id) }
    const read = () => readings.look((db) => readEvents(db, team, asked.id))
    const events = await readings.ask(`event ${JSON.stringify(asked)}`, read, PATIENCE_MS)
    const streamOf = (source: string | null) =>
      ALL_STREAMS.find((each) => each.source === source)?.name ?? null
    const status = events?.length === 0 ? 404 : 200
    const page = { view: 'event', title: 'Event', status, waits: events === null }
    return show(request, reply, { ...page, data: { asked, events, streamOf } })
  })

  app.get('/records', { config: { role: 'viewer' } }, async (request, reply) => {
    const { team = '', stream = '', id = '' } = request.query as Readonly<Record<string, string>>
    const asked = { team, stream, id: String(id) }
    const key = `record ${JSON.stringify(asked)}`
    const read = await readings.ask(key, () => readRecord(asked), PATIENCE_MS)
    const { teams, paths = [], found, why }: Partial<FoundRecord> = read ?? {}
    const data = {
      ...{ asked, teams: teams ?? null, found: found ?? null, why: why ?? null },
      streams: ALL_STREAMS.map(({ name }) => name),
      paths: mayAct(request.visitor!, 'steward') ? paths : [],
    }
    const status = why === undefined ? 200 : 404
    const page = { view: 'record', title: 'Record', status, waits: read === null }
    return show(request, reply, { ...page, data })
  })

  /** What the page shows of a record, if one is asked for. */
  async function readRecord({ team, stream, id }: Asked): Promise<FoundRecord> {
    const teams = (await readings.look(readTeams)).filter(({ isRemoved }) => !isRemoved)
    if (id === '') return { teams }
    try {
      const whole = await explained(team, stream, id)
      if (whole === null) throw new Refusal(404, 'there is no such team or stream')
      return { teams, paths: leavesOf(whole).map(({ path }) => path), found: withoutValues(whole) }
    } catch (error) {
      if (!isUnknown(error)) throw error
      return { teams, why: (error as Error).message }
    }
  }
}

type Asked = Readonly<Record<'team' | 'stream' | 'id', string>>

interface FoundRecord {
  readonly teams: readonly { readonly name: string }[]
  /** Of its single values. */
  readonly paths?: readonly string[]
  readonly found?: ReturnType<typeof withoutValues>
  /** Why there is nothing to show. */
  readonly why?: string
}

interface ReceivedEvent {
  readonly received_at: string
  readonly event_type: string | null
  readonly source: string | null
  readonly record_id: string | null
  readonly status: string
  readonly attempts: number
  readonly settled_at: string | null
  readonly body_hash: string
}

/** An event id may come again with other content. */
async function readEvents(
  db: Kysely<Warehouse>,
  team: string,
  id: string,
): Promise<readonly ReceivedEvent[]> {
  const { rows } = await sql<ReceivedEvent>`
    select to_json(received_at) #>> '{}' as received_at, event_type, source, record_id, status, attempts::int as attempts,
      to_json(settled_at) #>> '{}' as settled_at, encode(body_hash, 'hex') as body_hash
    from intake_raw.inbox join intake.teams team using (team_id)
    where team.name = ${team} and event_id = ${id} order by seq limit ${MAX_EVENTS}`.execute(db)
  return rows
}

const MAX_EVENTS = 100

function isUnknown(error: unknown): boolean {
  const { code } = error as { code?: string }
  return code === 'unknown_record' || code === 'erased'
}

const MAX_LEAVES = 1_000
const MAX_LENGTH = 10_000

interface Leaf {
  /** Names and positions, as `answers[2].value`. */
  readonly path: string
  readonly value: string
}

/** The single values of the current state. */
function leavesOf({ states }: Explained): readonly Leaf[] {
  const payload = states.at(-1)?.payload ?? null
  const leaves: Leaf[] = []
  const add = (value: unknown, path: string): void => {
    if (leaves.length >= MAX_LEAVES) return
    if (Array.isArray(value)) for (const [at, each] of value.entries()) add(each, `${path}[${at}]`)
    else if (isObject(value))
      for (const [name, each] of Object.entries(value)) add(each, path === '' ? name : `${path}.${name}`)
    else leaves.push({ path, value: typeof value === 'string' ? value : canonicalText(value) })
  }
  if (payload !== null) add(parseText(payload), '')
  return leaves
}

function withoutValues({ states, events, deadLetters, refetch, runs }: Explained) {
  return {
    states: states
      .toReversed()
      .map(({ version, observedAt, deleted, hash, origin, supersededAt, wonBy, changes }) => {
        const run = runs.get(Number(/^run:(\d+)\b/.exec(origin)?.[1] ?? 0)) ?? null
        const fields = changes.map(({ field, kind }) => (kind === 'changed' ? field : `${field} (${kind})`))
        return { version, observedAt, deleted, hash, origin, supersededAt, wonBy, fields, run }
      }),
    events: events.map(({ eventId, eventType, receivedAt, status, version, outcome }) => {
      return { eventId, eventType, receivedAt, status, version, outcome }
    }),
    deadLetters: deadLetters.map(({ id, status, seen, last_seen_at, reason }) => {
      return { id, status, seen, last_seen_at, reason }
    }),
    refetch:
      refetch === null
        ? null
        : { reason: refetch.reason, due_at: refetch.due_at, attempts: refetch.attempts },
  }
}
