/** An unchanged record costs no write, unless a pending event could still change it (law 2). */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { Envelope } from '../../../src/core/envelope.ts'
import { type Instant, instantOf, microsOf } from '../../../src/core/time.ts'
import {
  CHANGED_OR_PENDING,
  OTHER_OR_PENDING,
  placesChanged,
  storedVersions,
  withoutUnchanged,
} from '../../../src/load/merge/skip-unchanged.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { forms } from '../../../src/streams/forms.ts'
import { patients } from '../../../src/streams/patients.ts'
import { webhookDeliveries } from '../../../src/streams/webhook-deliveries.ts'
import { noonPlus, openScene, patient, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { recordEnvelope } from '../../support/envelopes.ts'
import { loadEnvelopes, takeWhole } from '../loading.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})

afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const seen = (id: string, seconds: number, name = 'Other'): Envelope =>
  recordEnvelope(patient(id, { last_name: name }), {
    teamId: scene.teamId,
    stream: 'patients',
    observedAt: noonPlus(seconds),
  })

async function load(envelopes: readonly Envelope[]) {
  const taken = await takeWhole(scene.session, patients, scene.teamId)
  return loadEnvelopes(scene.session, patients, envelopes, { mode: 'merge', taken })
}

/** A page read at this time, as a scan loads it. */
async function page(envelopes: readonly Envelope[]): Promise<readonly string[]> {
  const left = await withoutUnchanged(scene.session, patients, envelopes)
  if (left.length > 0) await load(left)
  return left.map(({ id }) => id)
}

test('an unchanged record is loaded again while an event of it is pending, and skipped once that is drained', async () => {
  await load([seen('p1', 1), seen('p2', 1)])
  await scene.store([patientEvent('p1', 2)])
  expect(await page([seen('p1', 5), seen('p2', 5)])).toEqual(['p1'])
  await scene.drain()
  expect(await page([seen('p1', 6), seen('p2', 6)])).toEqual([])
})

test('a record is as it was read only with the same hash, not deleted, in its team, and without a pending event', async () => {
  const ids = ['p1', 'p2', "p'3", 'p4', 'p5']
  await load(ids.slice(0, 4).map((id) => seen(id, 1)))
  const known = ids.map((id) => ({ id, hash: seen(id, 5).content!.hash }))
  const places = (teamId = scene.teamId) => placesChanged(scene.session, patients, teamId, known)
  expect(await places()).toEqual([4])
  expect(await places(await teamIdOf(scene.session.db, 'other'))).toEqual([0, 1, 2, 3, 4])
  await scene.store([patientEvent('p2', 2)])
  expect(await places()).toEqual([1, 4])
  await scene.drain()
  await load([seen("p'3", 6, 'Third')])
  await scene.rows(`update intake_raw.records set deleted = true, payload = null where id = 'p4'`)
  expect((await places()).filter((place) => place > 1)).toEqual([2, 3, 4])
})

test('a stored version is that of the record of this team and stream, also of a deleted one', async () => {
  const other = await teamIdOf(scene.session.db, 'other')
  const of = (stream: 'patients' | 'forms', teamId: number, seconds: number) =>
    recordEnvelope({ id: 'p1', questions: [] }, { teamId, stream, observedAt: noonPlus(seconds) })
  await load([of('patients', scene.teamId, 2)])
  const taken = (stream: typeof patients, teamId: number) => takeWhole(scene.session, stream, teamId)
  for (const [stream, teamId, seconds] of [
    [patients, other, 9],
    [forms, scene.teamId, 8],
  ] as const) {
    const states = [of(stream.name as 'patients', teamId, seconds)]
    await loadEnvelopes(scene.session, stream, states, { mode: 'merge', taken: await taken(stream, teamId) })
  }
  const versions = (stream: string, teamId = scene.teamId) =>
    storedVersions(scene.session.db, { teamId, stream }, ['p1', 'p1', 'p2'])
  const found = async () => [
    ...[[...(await versions('patients'))], [...(await versions('patients', other))]],
    [...(await versions('forms'))],
  ]
  const version = (seconds: number, deleted = false) => [['p1', { version: noonPlus(seconds), deleted }]]
  expect(await found()).toEqual([version(2), version(9), version(8)])
  await scene.rows(
    `update intake_raw.records set deleted = true, payload = null where team_id = $1 and stream = 'patients'`,
    [scene.teamId],
  )
  expect(await found()).toEqual([version(2, true), version(9), version(8)])
})

test('an event sent before a page was read does not undo it, whichever is loaded first', async () => {
  await load([seen('p1', 1, 'new')])
  await scene.store([patientEvent('p1', 2, { last_name: 'old' })])
  // The page shows the stored state; if it were skipped, its observation would not outrank the event's.
  await page([seen('p1', 5, 'new')])
  await scene.drain()
  expect(await scene.rows('select last_name from intake.patients')).toEqual([{ last_name: 'new' }])
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('a page read before an event was loaded does not win over it without a refetch, although the event has an old time', async () => {
  const taken = await takeWhole(scene.session, patients, scene.teamId)
  await scene.store([patientEvent('p1', 1, { last_name: 'newest' }), patientEvent('p2', 1)])
  await scene.drain()
  const read = (id: string, at: Instant) =>
    recordEnvelope(patient(id, { last_name: 'stale' }), {
      teamId: scene.teamId,
      stream: 'patients',
      observedAt: at,
    })
  const now = systemClock.now()
  const pages = [read('p1', instantOf(now - 2_000_000)), read('p3', instantOf(now))]
  const before = await loadEnvelopes(scene.session, patients, pages, { mode: 'merge', taken })
  expect(before.conflicts).toEqual(['p1'])
  const later = await load([read('p2', instantOf(now + 10_000_000))])
  expect(later).toMatchObject({ changed: 1, conflicts: [] })
})

test('events of another team, stream or record, and dead-lettered ones, have no effect', async () => {
  await load([seen('p1', 1)])
  const other = await teamIdOf(scene.session.db, 'other')
  await scene.store([patientEvent('p1', 2)], { teamId: other })
  await scene.store([
    patientEvent('p2', 2),
    patientEvent('p1', 2, {}, { source: forms.source }),
    patientEvent('p1', 2, {}, { source: 'invoice' }),
    patientEvent('p1', 2),
  ])
  await scene.session.client.query(
    `update intake_raw.inbox set status = 'dead' where seq = (select max(seq) from intake_raw.inbox)`,
  )
  expect(await page([seen('p1', 5)])).toEqual([])
})

/** Pending events of as many records that are not in the page. */
async function storeMany(teamId: number, source: string): Promise<void> {
  await scene.session.client.query(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, record_id, body)
     select $1, $2 || n, sha256(($2 || n)::bytea), '2026-01-01', now(), $2, 'other' || n, ''
     from generate_series(1, 6000) n`,
    [teamId, source],
  )
}

describe('in a log', () => {
  const log = webhookDeliveries
  const entry = (record: object, seconds: number, origin: string, teamId = scene.teamId) =>
    recordEnvelope(record, { teamId, stream: log.name, observedAt: noonPlus(seconds), origin })
  const micro = (seconds: number) => instantOf(microsOf(noonPlus(seconds)) + 1)
  const left = async (...entries: readonly Envelope[]) =>
    (await withoutUnchanged(scene.session, log, entries)).map(({ id, version, observedAt }) => [
      id,
      version,
      observedAt,
    ])

  test('entries from before those that retention removed are skipped, of their own team and log alone; undated ones are not', async () => {
    const other = await teamIdOf(scene.session.db, 'other')
    await scene.rows(
      `insert into intake_ops.pruned_logs (team_id, stream, before)
       select * from unnest($1::smallint[], $2::text[], $3::timestamptz[])`,
      [
        [other, 0, scene.teamId, scene.teamId],
        [log.name, log.name, log.name, 'messages'],
        [noonPlus(1_000), noonPlus(1_000), noonPlus(100), noonPlus(1_000)],
      ],
    )
    const created = (id: string, at: string) => entry({ id, created_at: at }, 2_000, 'run:1 page:1')
    const entries = [
      created('before', instantOf(microsOf(noonPlus(100)) - 1)),
      created('at it', noonPlus(100)),
      created('after', noonPlus(500)),
      entry({ id: 'undated' }, 2_000, 'run:1 page:1'),
      entry({ id: 'numbered', attempts: 3 }, 2_000, 'run:1 page:1'),
    ]
    const kept = (await left(...entries)).map(([id]) => id)
    expect(kept).toEqual(['at it', 'after', 'undated', 'numbered'])
  })

  test('an entry that changed since an earlier run is later than what that one stored, whatever the clocks show', async () => {
    const dated = { id: 'dated', created_at: noonPlus(10), status: 'a' }
    const undated = { id: 'undated', status: 'a' }
    const mine = { id: 'mine', status: 'a' }
    const states = [
      ...[dated, undated].map((record) => entry(record, 50, 'run:12 page:1')),
      entry(mine, 50, 'run:1 page:1'),
    ]
    const taken = await takeWhole(scene.session, log, scene.teamId)
    await loadEnvelopes(scene.session, log, states, { mode: 'merge', taken })
    const changed = [dated, undated, mine].map((record) => ({ ...record, status: 'b' }))
    const read = (seconds: number) => left(...changed.map((each) => entry(each, seconds, 'run:1 page:2')))
    // The clock was set back. What this run itself stored later stays.
    expect(await read(20)).toEqual([
      ['dated', noonPlus(10), micro(50)],
      ['undated', micro(50), micro(50)],
    ])
    expect(await read(60)).toEqual([
      ['dated', noonPlus(10), noonPlus(60)],
      ['undated', noonPlus(60), noonPlus(60)],
      ['mine', noonPlus(60), noonPlus(60)],
    ])
  })
})

test('6,000 pending events of another team, another stream or other records cost an unchanged page no write', async () => {
  await load([seen('p1', 1), seen('p2', 1)])
  await storeMany(await teamIdOf(scene.session.db, 'other'), 'patient')
  await storeMany(scene.teamId, 'form')
  await storeMany(scene.teamId, 'patient')
  expect(await page([seen('p1', 5), seen('p2', 5)])).toEqual([])
  await scene.store([patientEvent('p2', 2)])
  expect(await page([seen('p1', 6), seen('p2', 6)])).toEqual(['p2'])
})

test.each([
  {
    declared: 'pending (smallint, text, text, text[], text[], timestamptz[], timestamptz[], text, boolean)',
    text: CHANGED_OR_PENDING,
    call: (teamId: number) =>
      `pending (${teamId}::smallint, 'patients', 'patient', '{p1,p2}', '{00,00}', '{now,now}', '{now,now}', 'run:1 ', false)`,
  },
  {
    declared: 'pending (smallint, text, text, text, bytea)',
    text: OTHER_OR_PENDING,
    call: (teamId: number) => `pending (${teamId}::smallint, 'patients', 'patient', E'p1\\np2', '')`,
  },
])(
  '$declared looks up pending events by key, whatever statistics the planner has',
  async ({ declared, text, call }) => {
    await storeMany(scene.teamId, 'patient')
    const planOf = async () => {
      const query = `explain (costs off) execute ${call(scene.teamId)}`
      const rows = await scene.rows<{ 'QUERY PLAN': string }>(query)
      return rows.map((row) => row['QUERY PLAN']).join('\n')
    }
    await scene.session.client.query(`prepare ${declared} as ${text}`)
    for (const known of ['nothing', 'all'] as const) {
      if (known === 'all') await scene.session.client.query('analyze intake_raw.inbox')
      for (const mode of ['force_custom_plan', 'force_generic_plan']) {
        await scene.session.client.query(`set plan_cache_mode = ${mode}`)
        const plan = await planOf()
        expect(plan, `${known} known, ${mode}`).toMatch(
          /Index Cond: \(\(team_id = .*\) AND \(source = .*\) AND \(record_id = incoming\.id\)\)/,
        )
        expect(plan).not.toMatch(/Seq Scan|Hash|Merge Join/)
        const ofInbox = plan.split('->').filter((node) => node.includes(' on inbox'))
        expect(ofInbox.length).toBeGreaterThan(1)
        for (const node of ofInbox) expect(node).not.toMatch(/(?<!One-Time )Filter/)
      }
    }
  },
)
