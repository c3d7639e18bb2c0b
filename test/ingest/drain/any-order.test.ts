/**
 * Law 2 for both entrances together: a service changes its records, sends events of that late, twice and with the data
 * of then, and is paged through meanwhile; whatever the order in which all that is loaded, and by however many drains,
 * the tables end as the service does. Each run draws 25 cases of its own; TEST_THOROUGH=1 draws 400.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { Envelope } from '../../../src/core/envelope.ts'
import { type Instant, instantOf } from '../../../src/core/time.ts'
import { takeDue } from '../../../src/extract/refetch/due-rows.ts'
import { settleAnswers } from '../../../src/extract/refetch/settle-answers.ts'
import { type Ask, askAgain } from '../../../src/load/refetches.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { withoutUnchanged } from '../../../src/load/unchanged.ts'
import { patients } from '../../../src/streams/patients.ts'
import { loadEnvelopes, takeWhole } from '../../load/loading.ts'
import { recordEnvelope } from '../../support/envelopes.ts'
import { often } from '../../support/thorough.ts'
import { type Event, openScene, patient, type Scene } from './scene.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene()
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
})

const ID = fc.constantFrom('a', 'b')

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      does: fc.constant('change' as const),
      id: ID,
      name: fc.constantFrom('x', 'y', 'z'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('delete' as const), id: ID }) },
  /** Sends one of the events so far, with the data of now. */
  { weight: 4, arbitrary: fc.record({ does: fc.constant('send' as const), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('page' as const), waits: fc.nat({ max: 4 }) }) },
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

interface Sent {
  readonly id: string
  readonly of: string
  readonly type: 'updated' | 'deleted'
  readonly at: Instant
}

let cases = 0

/** `grain`: how many moments of the service bear one time. */
async function play(steps: readonly Step[], grain: number): Promise<void> {
  cases += 1
  const teamId = await teamIdOf(scene.session.db, `case ${cases}`)
  const begun = systemClock.now()
  let ticks = 0
  /** The service's time; events are stamped coarsely, so that times tie and lie before what they tell of. */
  const now = () => instantOf(begun + ticks * 1_000)
  const stamp = () => instantOf(begun + Math.floor(ticks / grain) * grain * 1_000)
  const records = new Map<string, string>()
  const last = new Map<string, string>()
  const events: Sent[] = []
  const unsent = new Set<Sent>()
  const waiting: { left: number; envelopes: readonly Envelope[] }[] = []

  async function send(event: Sent): Promise<void> {
    unsent.delete(event)
    const name = records.get(event.of) ?? last.get(event.of)!
    const body: Event = {
      ...{ id: event.id, timestamp: event.at, event_type: event.type, source: 'patient' },
      data: patient(event.of, { last_name: name, updated_at: null }),
    }
    await scene.store([body], { teamId, receivedAt: now() })
  }

  async function drain(drains: number, batch: number): Promise<void> {
    const teams = [{ name: 'this', teamId }]
    await Promise.all(Array.from({ length: drains }, () => scene.drain({ teams, batch, workers: drains })))
  }

  async function load(envelopes: readonly Envelope[]): Promise<void> {
    const left = await withoutUnchanged(scene.session, envelopes)
    if (left.length === 0) return
    const taken = await takeWhole(scene.session, patients, teamId)
    const { contested } = await loadEnvelopes(scene.session, patients, left, { mode: 'merge', taken })
    const ask = (id: string): Ask => ({
      teamId,
      stream: 'patients',
      id,
      reason: 'contested',
      origin: 'page',
      since: null,
    })
    await askAgain(scene.session.db, contested.map(ask))
  }

  async function answerAll(): Promise<void> {
    const { db } = scene.session
    for (let rounds = 0; rounds < 20; rounds++) {
      ticks += 1
      await scene.session.client.query('update intake_ops.refetches set due_at = now() where team_id = $1', [
        teamId,
      ])
      const rows = await takeDue(db, teamId, ['patients'], 50)
      if (rows.length === 0) return
      const answers = rows.map((row) => {
        const name = records.get(row.id)
        if (name === undefined) return { row, told: { kind: 'gone', observedAt: now() } as const }
        const envelope = recordEnvelope(patient(row.id, { last_name: name, updated_at: null }), {
          teamId,
          stream: 'patients',
          observedAt: now(),
        })
        return { row, told: { kind: 'record', envelope } as const }
      })
      await settleAnswers(scene.session, patients, answers, now())
    }
    throw new Error('records are asked for without end')
  }

  async function take(each: Step): Promise<void> {
    if (each.does === 'change' || each.does === 'delete') {
      const held = records.get(each.id)
      if (each.does === 'delete' && held === undefined) return
      if (held !== undefined) last.set(each.id, held)
      if (each.does === 'change') records.set(each.id, each.name)
      else records.delete(each.id)
      const event: Sent = {
        id: `${cases}-${events.length}`,
        of: each.id,
        type: each.does === 'change' ? 'updated' : 'deleted',
        at: stamp(),
      }
      events.push(event)
      unsent.add(event)
    } else if (each.does === 'send') {
      const event = events[each.which % Math.max(events.length, 1)]
      if (event !== undefined) await send(event)
    } else if (each.does === 'page') {
      const envelopes = [...records].map(([id, name]) =>
        recordEnvelope(patient(id, { last_name: name, updated_at: null }), {
          teamId,
          stream: 'patients',
          observedAt: now(),
        }),
      )
      waiting.push({ left: each.waits, envelopes })
    } else await drain(each.drains, each.batch)
  }

  for (const each of steps) {
    ticks += 1
    await take(each)
    for (const page of waiting) if (page.left-- === 0) await load(page.envelopes)
  }
  for (const event of unsent) {
    ticks += 1
    await send(event)
  }
  for (const page of waiting) if (page.left >= 0) await load(page.envelopes)
  await drain(1, 100)
  await answerAll()

  const found = await scene.rows<{ id: string; last_name: string }>(
    'select id, last_name from intake.patients where team_id = $1 and _deleted_at is null',
    [teamId],
  )
  expect(new Map(found.map(({ id, last_name }) => [id, last_name]))).toEqual(records)
}

test('events and pages, late, twice, tied and in any order, end in what the service holds', {
  timeout: often(60_000, 600_000),
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 16 }), fc.constantFrom(1, 3, 8), play),
    {
      numRuns: often(25, 400),
    },
  )
})
