/**
 * Law 2 for both entrances together: a service changes records of three streams and two teams that share their ids, sends
 * events late, twice and with old or new data, and is paged through at the same time. In any order of loading, with any
 * number of drains, the tables of each team equal the service.
 *
 * Two kinds of service are drawn. One shows no updated_at, and stamps events coarsely, so that times tie. The other
 * shows updated_at, and stamps events up to some milliseconds late, so that two events of a record may be stamped in
 * another order than its states (deletes are stamped exactly). Packet responses are only of the second kind, because
 * they cannot be fetched by id.
 *
 * Each run tries the same 25 cases; TEST_THOROUGH=1 draws 400.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { Envelope } from '../../../src/core/envelope.ts'
import { type Instant, instantOf } from '../../../src/core/time.ts'
import { takeDue } from '../../../src/extract/conflicts/due-rows.ts'
import { settleAnswers } from '../../../src/extract/conflicts/settle-answers.ts'
import { withoutUnchanged } from '../../../src/load/merge/skip-unchanged.ts'
import { type RefetchRequest, requestRefetches } from '../../../src/load/refetches.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { messages } from '../../../src/streams/messages.ts'
import { packetResponses } from '../../../src/streams/packet-responses.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Stream } from '../../../src/streams/stream.ts'
import { loadEnvelopes, takeWhole } from '../../load/loading.ts'
import { recordEnvelope } from '../../support/envelopes.ts'
import { often } from '../../support/thorough.ts'
import { openScene, patient, type Scene } from './scene.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene()
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
})

interface Resource {
  readonly stream: Stream
  readonly render: (id: string, name: string, updated_at: Instant | null) => object
  /** The column that shows the name. */
  readonly column: string
}

const RESOURCES: readonly Resource[] = [
  {
    stream: patients,
    render: (id, name, updated_at) => patient(id, { last_name: name, patient_tags: [name], updated_at }),
    column: 'last_name',
  },
  {
    stream: messages,
    render: (id, name, updated_at) => ({
      id,
      message_type: 'sms',
      content: name,
      status: 'sent',
      updated_at,
    }),
    column: 'content',
  },
  {
    stream: packetResponses,
    render: (id, name, updated_at) => ({
      ...{ id, packet_id: name, is_submitted: false, form_index: 1, is_queued: false, is_archived: false },
      ...{ responses: [name], submitted_at: null, created_at: null, updated_at },
    }),
    column: 'packet_id',
  },
]

const PLACE = {
  team: fc.nat({ max: 1 }),
  resource: fc.constantFrom(0, 0, 1, 2),
  id: fc.constantFrom('a', 'b'),
}

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      does: fc.constant('change' as const),
      ...PLACE,
      name: fc.constantFrom('x', 'y', 'z'),
      /** Milliseconds by which its event is stamped late. */
      lateBy: fc.nat({ max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('delete' as const), ...PLACE }) },
  /** Sends one of the earlier events with current data. */
  { weight: 5, arbitrary: fc.record({ does: fc.constant('send' as const), which: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      does: fc.constant('page' as const),
      team: PLACE.team,
      resource: fc.constantFrom(0, 1),
      waits: fc.nat({ max: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      does: fc.constant('drain' as const),
      drains: fc.integer({ min: 1, max: 2 }),
      batch: fc.constantFrom(1, 2, 100),
    }),
  },
)

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** Coarse: several changes at the service share one time. */
type Service = { readonly kind: 'coarse'; readonly grain: number } | { readonly kind: 'stamped' }

interface Shown {
  readonly name: string
  readonly updatedAt: Instant
}

interface Sent {
  readonly id: string
  readonly team: number
  readonly resource: number
  readonly of: string
  readonly type: 'updated' | 'deleted'
  readonly at: Instant
}

let cases = 0

async function play(steps: readonly Step[], service: Service): Promise<void> {
  cases += 1
  const teams: { readonly name: string; readonly teamId: number }[] = []
  for (const name of ['first', 'second'])
    teams.push({ name, teamId: await teamIdOf(scene.session.db, `case ${cases} ${name}`) })
  const begun = systemClock.now()
  let ticks = 0
  const moment = (tick: number) => instantOf(begun + tick * 1_000)
  const now = () => moment(ticks)
  const records = new Map<string, Map<string, Shown>>()
  const last = new Map<string, Shown>()
  const events: Sent[] = []
  const unsent = new Set<Sent>()
  const waiting: { left: number; team: number; resource: number; envelopes: readonly Envelope[] }[] = []

  const recordsOf = (team: number, resource: number): Map<string, Shown> => {
    const key = `${team}/${resource}`
    const known = records.get(key) ?? new Map<string, Shown>()
    records.set(key, known)
    return known
  }

  function shown(resource: number, id: string, { name, updatedAt }: Shown): object {
    const isStamped = service.kind === 'stamped' || resource === 2
    return RESOURCES[resource]!.render(id, name, isStamped ? updatedAt : null)
  }

  function envelopeOf(team: number, resource: number, id: string, state: Shown): Envelope {
    const { teamId } = teams[team]!
    const made = { teamId, stream: RESOURCES[resource]!.stream.name, observedAt: now() }
    return recordEnvelope(shown(resource, id, state), made)
  }

  async function send(event: Sent): Promise<void> {
    unsent.delete(event)
    const { team, resource, of } = event
    const state = recordsOf(team, resource).get(of) ?? last.get(`${team}/${resource}/${of}`)!
    const body = {
      ...{ id: event.id, timestamp: event.at, event_type: event.type },
      ...{ source: RESOURCES[resource]!.stream.source, data: shown(resource, of, state) },
    }
    await scene.store([body], { teamId: teams[team]!.teamId, receivedAt: now() })
  }

  async function drain(drains: number, batch: number): Promise<void> {
    await Promise.all(Array.from({ length: drains }, () => scene.drain({ teams, batch, workers: drains })))
  }

  async function load(team: number, resource: number, envelopes: readonly Envelope[]): Promise<void> {
    const { teamId } = teams[team]!
    const { stream } = RESOURCES[resource]!
    const left = await withoutUnchanged(scene.session, stream, envelopes)
    if (left.length === 0) return
    const taken = await takeWhole(scene.session, stream, teamId)
    const { conflicts } = await loadEnvelopes(scene.session, stream, left, { mode: 'merge', taken })
    const ask = (id: string): RefetchRequest => ({
      ...{ teamId, stream: stream.name, id },
      ...{ reason: 'contested', origin: 'page', since: null },
    })
    await requestRefetches(scene.session.db, conflicts.map(ask))
  }

  async function answerAll(): Promise<void> {
    const { db } = scene.session
    for (let rounds = 0; rounds < 20; rounds++) {
      ticks += 1
      let answered = 0
      await scene.session.client.query('update intake_ops.refetches set due_at = now()')
      for (const [team, { teamId }] of teams.entries()) {
        for (const resource of [0, 1]) {
          const { stream } = RESOURCES[resource]!
          const rows = await takeDue(db, teamId, [stream.name], 50)
          answered += rows.length
          if (rows.length === 0) continue
          const answers = rows.map((row) => {
            const state = recordsOf(team, resource).get(row.id)
            if (state === undefined) return { row, answer: { kind: 'gone', observedAt: now() } as const }
            const envelope = envelopeOf(team, resource, row.id, state)
            return { row, answer: { kind: 'record', envelope } as const }
          })
          await settleAnswers(scene.session, stream, answers, now(), async () => {})
        }
      }
      if (answered === 0) return
    }
    throw new Error('records are asked for without end')
  }

  async function take(each: Step): Promise<void> {
    if (each.does === 'change' || each.does === 'delete') {
      const { team, resource, id } = each
      const own = recordsOf(team, resource)
      const current = own.get(id)
      if (each.does === 'delete' && (current === undefined || resource === 2)) return
      if (current !== undefined) last.set(`${team}/${resource}/${id}`, current)
      if (each.does === 'change') own.set(id, { name: each.name, updatedAt: now() })
      else own.delete(id)
      const lateBy = each.does === 'change' ? each.lateBy : 0
      const isCoarse = service.kind === 'coarse' && resource !== 2
      const at = isCoarse ? moment(Math.floor(ticks / service.grain) * service.grain) : moment(ticks + lateBy)
      const type = each.does === 'change' ? 'updated' : 'deleted'
      const event: Sent = { id: `${cases}-${events.length}`, team, resource, of: id, type, at }
      events.push(event)
      unsent.add(event)
    } else if (each.does === 'send') {
      const event = events[each.which % Math.max(events.length, 1)]
      if (event !== undefined) await send(event)
    } else if (each.does === 'page') {
      const { team, resource } = each
      const own = [...recordsOf(team, resource)]
      const envelopes = own.map(([id, state]) => envelopeOf(team, resource, id, state))
      waiting.push({ left: each.waits, team, resource, envelopes })
    } else await drain(each.drains, each.batch)
  }

  for (const each of steps) {
    ticks += 1
    await take(each)
    for (const page of waiting) if (page.left-- === 0) await load(page.team, page.resource, page.envelopes)
  }
  for (const event of unsent) {
    ticks += 1
    await send(event)
  }
  for (const page of waiting) if (page.left >= 0) await load(page.team, page.resource, page.envelopes)
  await drain(1, 100)
  await answerAll()

  for (const [team, { teamId }] of teams.entries()) {
    for (const [resource, { stream, column }] of RESOURCES.entries()) {
      const found = await scene.rows<{ id: string; name: string }>(
        `select id, ${column} as name from intake.${stream.table} where team_id = $1 and _deleted_at is null`,
        [teamId],
      )
      const wanted = [...recordsOf(team, resource)].map(([id, { name }]) => [id, name] as const)
      expect(new Map(found.map(({ id, name }) => [id, name])), `${stream.name} of team ${team}`).toEqual(
        new Map(wanted),
      )
    }
    const tags = await scene.rows<{ id: string; name: string }>(
      'select patient_id as id, name from intake.patient_tags where team_id = $1',
      [teamId],
    )
    const wanted = [...recordsOf(team, 0)].map(([id, { name }]) => [id, name] as const)
    expect(new Map(tags.map(({ id, name }) => [id, name])), `tags of team ${team}`).toEqual(new Map(wanted))
  }
}

const steps = fc.array(step, { minLength: 3, maxLength: 20 })

describe('events and pages of two teams and three streams, late, duplicate and in any order, end with the tables of each service', () => {
  test.each<[string, fc.Arbitrary<Service>]>([
    ['times tie', fc.constantFrom(1, 3, 8).map((grain) => ({ kind: 'coarse', grain }))],
    ['events are stamped in another order than their states', fc.constant({ kind: 'stamped' })],
  ])('%s', { timeout: often(180_000, 900_000) }, async (_, service) => {
    await fc.assert(fc.asyncProperty(steps, service, play), { numRuns: often(25, 400) })
  })
})
