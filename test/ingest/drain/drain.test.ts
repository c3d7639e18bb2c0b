/** Stored events become rows, once and in order; an event that cannot be loaded becomes a dead letter and stops no other. */
import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { Instant } from '../../../src/core/time.ts'
import { openDrain } from '../../../src/ingest/drain/drain.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWatchedClock } from '../../support/sleeps.ts'
import { noonPlus, openScene, patientEvent, type Scene, silent, unwatched } from './scene.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})

afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const names = async () =>
  Object.fromEntries(
    (await scene.rows<{ id: string; last_name: string }>('select id, last_name from intake.patients')).map(
      ({ id, last_name }) => [id, last_name],
    ),
  )

const deadLetters = () =>
  scene.rows<{ stream: string; record_id: string | null; reason: string; origin: string }>(
    'select stream, record_id, reason, origin from intake_ops.dead_letters order by id',
  )

test('one rejected event among five hundred is retried and dead-lettered; the others are loaded', async () => {
  await scene.session.client.query(
    `alter table intake.patients add constraint picky check (last_name <> 'refused')`,
  )
  const events = Array.from({ length: 500 }, (_, at) => patientEvent(`p${at}`, 1))
  events.splice(321, 1, patientEvent('bad', 1, { last_name: 'refused' }))
  const whole = events[210]!
  const inPart = { ...whole, data: { id: 'p210', last_name: 'In part', updated_at: noonPlus(1) } }
  await scene.store(events.with(210, inPart))
  const counts: object[] = []
  const announced: boolean[] = []
  const lines: string[] = []
  const options = {
    ...{ backoffMs: [1, 1], onRefetchRequested: () => void announced.push(true) },
    watch: { ...unwatched, drained: (_team: string, each: object) => counts.push(each) },
    logger: pino({ base: null, timestamp: false }, { write: (line: string) => void lines.push(line) }),
  }
  await scene.drain({ batch: 200, ...options })
  await sleep(5)
  await scene.drain(options)
  await sleep(5)
  await scene.drain(options)
  expect(await scene.inbox()).toEqual({ dead: 1, done: 499 })
  expect(Object.keys(await names()).length).toBe(499)
  expect(await deadLetters()).toEqual([
    {
      stream: 'patients',
      record_id: 'bad',
      reason: 'the warehouse refused the event (SQLSTATE 23514)',
      origin: expect.stringMatching(/^event:event-/),
    },
  ])
  expect(await scene.rows(`select attempts, due_at from intake_raw.inbox where status = 'dead'`)).toEqual([
    { attempts: 2, due_at: null },
  ])
  expect(await scene.rows(`select convert_from(body, 'UTF8') as body from intake_raw.set_aside`)).toEqual([
    { body: JSON.stringify(events[321]) },
  ])
  const total = (key: string) => counts.reduce((sum, each) => sum + (each as Record<string, number>)[key]!, 0)
  expect([total('done'), total('dead'), total('retried')]).toEqual([499, 1, 2])
  // Of the parts of its batch only one has a record to fetch.
  expect([announced, await scene.asked()]).toEqual([[true], ['patients p210 partial']])
  const [{ seq } = { seq: '' }] = await scene.rows<{ seq: string }>(
    `select seq from intake_raw.inbox where status = 'dead'`,
  )
  const line = { seq, team_id: scene.teamId }
  const again = 'an event could not be loaded; tried again'
  expect(lines.map((each) => JSON.parse(each))).toEqual([
    { level: 40, ...line, attempts: 1, msg: again },
    { level: 40, ...line, attempts: 2, msg: again },
    { level: 50, ...line, attempts: 3, msg: 'an event could not be loaded; dead-lettered' },
  ])
})

test('an event that can be loaded later is loaded without intervention', async () => {
  await scene.session.client.query(
    `alter table intake.patients add constraint picky check (last_name <> 'refused')`,
  )
  await scene.store([patientEvent('p1', 1, { last_name: 'refused' })])
  await using drain = openDrain({
    ...{ url: scene.url, clock: systemClock, logger: silent, watch: unwatched, pollMs: 50 },
    teams: [{ name: 'default', teamId: scene.teamId }],
    // There is one more attempt, however long the next statement takes.
    backoffMs: Array<number>(1_000).fill(200),
  })
  await drain.idle()
  expect(await scene.inbox()).toEqual({ pending: 1 })
  await scene.session.client.query('alter table intake.patients drop constraint picky')
  await expect.poll(scene.inbox).toEqual({ done: 1 })
})

test('an event that cannot be loaded is tried again after a second, then ten, then a minute, and then dead-lettered', async () => {
  await scene.session.client.query(`
    alter table intake.patients add constraint picky check (last_name <> 'refused');
    create table pauses as select interval '0' as pause where false;
    create function note() returns trigger language plpgsql as
      $$ begin insert into pauses select new.due_at - now() where new.due_at is not null; return new; end $$;
    create trigger note before update on intake_raw.inbox for each row execute function note()`)
  await scene.store([patientEvent('p1', 1, { last_name: 'refused' })])
  const tried: object[] = []
  for (let tries = 0; tries < 4; tries++) {
    await scene.session.client.query('update intake_raw.inbox set due_at = null')
    await scene.drain()
    tried.push(await scene.inbox())
  }
  expect(tried).toEqual([...Array(3).fill({ pending: 1 }), { dead: 1 }])
  expect(await scene.rows('select extract(epoch from pause)::int as seconds from pauses order by 1')).toEqual(
    [1, 10, 60].map((seconds) => ({ seconds })),
  )
})

test('while events are tried one by one, one that the warehouse cannot store now is not blamed for it', async () => {
  await scene.session.client.query(`
    alter table intake.patients add constraint picky check (last_name <> 'refused');
    create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100'; end $$;
    create trigger fail before insert on intake.patients for each row when (new.id = 'p2') execute function fail()`)
  await scene.store([patientEvent('p1', 1, { last_name: 'refused' }), patientEvent('p2', 1)])
  await using drain = openDrain({
    ...{ url: scene.url, clock: systemClock, logger: silent, watch: unwatched, pollMs: 20, backoffMs: [] },
    teams: [{ name: 'default', teamId: scene.teamId }],
  })
  await expect.poll(() => drain.trouble()).toMatch(/the disk of the warehouse is full/)
  expect(await deadLetters()).toHaveLength(1)
  await scene.session.client.query('drop trigger fail on intake.patients')
  await drain.idle()
  expect(await scene.inbox()).toEqual({ dead: 1, done: 1 })
  expect(await names()).toEqual({ p2: 'Other' })
})

test('an event that is to be tried again later is left alone until then, while others are loaded', async () => {
  await scene.session.client.query(
    `alter table intake.patients add constraint picky check (last_name <> 'refused')`,
  )
  const other = await teamIdOf(scene.session.db, 'other')
  await scene.store([patientEvent('p1', 1, { last_name: 'refused' })])
  for (const teamIds of [[scene.teamId], [scene.teamId, other]]) {
    for (const id of ['p2', 'p3']) {
      await scene.store([patientEvent(id, 2)])
      const teams = teamIds.map((teamId) => ({ name: `team ${teamId}`, teamId }))
      await scene.drain({ teams, backoffMs: Array<number>(9).fill(3_600_000) })
    }
  }
  expect(await scene.inbox()).toEqual({ done: 4, pending: 1 })
  expect(await scene.rows('select attempts from intake_raw.inbox where due_at > now()')).toEqual([
    { attempts: 1 },
  ])
})

test('events of other teams are not touched', async () => {
  const other = await teamIdOf(scene.session.db, 'other')
  await scene.store([patientEvent('p1', 1)], { teamId: other })
  await scene.store([patientEvent('p2', 1)])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 1, pending: 1 })
  await scene.drain({ teams: [{ name: 'other', teamId: other }] })
  expect(await scene.rows('select team_id, id from intake.patients order by id')).toEqual([
    { team_id: other, id: 'p1' },
    { team_id: scene.teamId, id: 'p2' },
  ])
})

test('an open drain is woken by a notification of another process, and reports how long an event took', async () => {
  const seconds: number[] = []
  await using drain = openDrain({
    ...{ url: scene.url, clock: systemClock, logger: silent, pollMs: 60_000 },
    teams: [{ name: 'default', teamId: scene.teamId }],
    watch: { ...unwatched, drained: (_team, _counts, visible) => seconds.push(...visible) },
  })
  await drain.idle()
  // It looks once more after it has begun to listen.
  const listening = `select query from pg_stat_activity
    where datname = current_database() and application_name = 'intake-sync listen intake_inbox' and state = 'idle'`
  await expect.poll(() => scene.rows(listening)).toEqual([{ query: 'listen "intake_inbox"' }])
  await sleep(200)
  const [{ before }] = (await scene.rows('select clock_timestamp()::text as before')) as [{ before: Instant }]
  await scene.store([patientEvent('p1', 1)], { receivedAt: before })
  await scene.session.client.query('notify intake_inbox')
  await expect.poll(() => seconds).toHaveLength(1)
  expect(await scene.inbox()).toEqual({ done: 1 })
  expect(seconds[0]).toBeGreaterThan(0)
  const passed = 'select extract(epoch from clock_timestamp() - $1::timestamptz)::float8 as passed'
  const [{ passed: most }] = (await scene.rows(passed, [before])) as [{ passed: number }]
  expect(seconds[0]).toBeLessThanOrEqual(most)
  expect(drain.trouble()).toBeNull()
})

test.each([20, 21])(
  'a backlog of batches of five and %i events is drained at one go, not a batch at each poll',
  async (count) => {
    await scene.store(Array.from({ length: count }, (_, at) => patientEvent(`p${at}`, at)))
    const teams = [{ name: 'default', teamId: scene.teamId }]
    const hour = 3_600_000
    await using _ = openDrain({
      ...{ url: scene.url, teams, clock: systemClock, logger: silent, watch: unwatched },
      ...{ batch: 5, pollMs: hour },
    })
    await vi.waitFor(async () => expect(await scene.inbox()).toEqual({ done: count }), 60_000)
  },
)

test('two drains share one inbox: every event is settled once', async () => {
  const ids = Array.from({ length: 40 }, (_, at) => `p${at}`)
  const events = Array.from({ length: 1200 }, (_, at) =>
    patientEvent(ids[at % ids.length]!, 1 + Math.floor(at / ids.length), {
      last_name: `v${Math.floor(at / ids.length)}`,
    }),
  )
  await scene.store(events)
  let done = 0
  const watch = {
    ...unwatched,
    drained(_team: string, counts: { done: number }) {
      done += counts.done
    },
  }
  await Promise.all([scene.drain({ batch: 50, watch }), scene.drain({ batch: 50, watch })])
  expect(await scene.inbox()).toEqual({ done: 1200 })
  expect(done).toBe(1200)
  expect(new Set(Object.values(await names()))).toEqual(new Set(['v29']))
  // Each event with an earlier event of its record in the other drain requested a refetch.
  expect((await scene.asked()).every((line) => / contested$/.test(line))).toBe(true)
})

test('a later event that is loaded while another drain has an earlier one makes its record conflicting', async () => {
  await scene.store([patientEvent('p1', 2, { last_name: 'earlier' })])
  await using other = await openSession({ url: scene.url, purpose: 'other hands' })
  await other.client.query('begin')
  await other.client.query('select 1 from intake_raw.inbox for update')
  // A retry with current data under an old time: it arrived last, and has the newest state.
  await scene.store([patientEvent('p1', 1, { last_name: 'now' }), patientEvent('p2', 1)])
  const options = { teams: [{ name: 'default', teamId: scene.teamId }], pollMs: 20 }
  await using drain = openDrain({
    ...{ url: scene.url, clock: systemClock, logger: silent, watch: unwatched },
    ...options,
  })
  while ((await scene.inbox()).done !== 2) await sleep(10)
  expect(await scene.asked()).toEqual(['patients p1 contested'])
  await other.client.query('rollback')
  await drain.idle()
  expect(await names()).toEqual({ p1: 'earlier', p2: 'Other' })
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('a session that ends during a batch loses no event', async () => {
  const events = Array.from({ length: 600 }, (_, at) => patientEvent(`p${at}`, 1))
  await scene.store(events)
  await using drain = openDrain({
    ...{ url: scene.url, clock: systemClock, logger: silent, watch: unwatched, batch: 20 },
    teams: [{ name: 'default', teamId: scene.teamId }],
  })
  let ended = 0
  for (let tries = 0; tries < 6 || ended < 2; tries++) {
    await sleep(40)
    const rows = await scene.rows<{ ended: boolean }>(
      `select pg_terminate_backend(pid) as ended from pg_stat_activity
       where datname = current_database() and application_name in ('intake-sync drain', 'intake-sync listen intake_inbox')`,
    )
    ended += rows.length
  }
  await drain.idle()
  expect(await scene.inbox()).toEqual({ done: 600 })
  expect(Object.keys(await names()).length).toBe(600)
  await expect.poll(() => drain.trouble()).toBeNull()
})

test('the first of several failures is reported, and the end of them, each time anew', async () => {
  const said: string[] = []
  const logger = pino({}, { write: (line: string) => void said.push(JSON.parse(line).msg.split(':')[0]) })
  await using drain = openDrain({
    ...{ url: scene.url, clock: systemClock, logger, watch: unwatched, pollMs: 60_000 },
    teams: [{ name: 'default', teamId: scene.teamId }],
  })
  const end = () =>
    scene.rows(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name = 'intake-sync drain'`,
    )
  const both = ['events are not drained', 'draining events again']
  for (const expected of [both, [...both, ...both]]) {
    await expect.poll(async () => (await end()).length).toBeGreaterThan(0)
    await expect
      .poll(() => {
        drain.wake()
        return said.length
      })
      .toBeGreaterThanOrEqual(expected.length)
    expect(said).toEqual(expected)
    expect(drain.trouble()).toBeNull()
  }
})

test('closing a drain finishes the current batch and takes no other', async () => {
  await scene.store(Array.from({ length: 400 }, (_, at) => patientEvent(`p${at}`, 1)))
  let closed: Promise<void> | undefined
  const drain = openDrain({
    ...{ url: scene.url, clock: systemClock, logger: silent, batch: 20, workers: 2 },
    teams: [{ name: 'default', teamId: scene.teamId }],
    watch: { ...unwatched, drained: () => (closed ??= drain.close()) },
  })
  await expect.poll(() => closed !== undefined).toBe(true)
  await closed
  const { done = 0, pending = 0 } = await scene.inbox()
  // The settled one, and at most those that the two workers had taken.
  expect([20, 40, 60]).toContain(done)
  expect(done + pending).toBe(400)
  expect(Object.keys(await names()).length).toBe(done)
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 400 })
})

test('closing a drain waits for the batch that is written, but not for ever', async () => {
  const said: string[] = []
  const logger = pino({}, { write: (line: string) => void said.push(JSON.parse(line).msg) })
  const sessions = (state: string) =>
    scene.rows<{ name: string }>(
      `select application_name as name from pg_stat_activity where datname = current_database() and ${state}`,
    )
  await using other = await openSession({ url: scene.url, purpose: 'other hands' })
  const closeWhileLocked = async (id: string, clock: typeof systemClock) => {
    await other.client.query('begin; lock table intake.patients in share mode')
    await scene.store([patientEvent(id, 1)])
    const drain = openDrain({
      ...{ url: scene.url, clock, logger, watch: unwatched, pollMs: 20 },
      teams: [{ name: 'default', teamId: scene.teamId }],
    })
    await expect.poll(() => sessions(`wait_event_type = 'Lock'`)).toEqual([{ name: 'intake-sync drain' }])
    return drain.close()
  }
  let isClosed = false
  const closed = closeWhileLocked('p1', systemClock).then(() => {
    isClosed = true
  })
  await expect.poll(() => sessions(`wait_event_type = 'Lock'`)).toHaveLength(1)
  await expect.poll(() => sessions(`application_name = 'intake-sync listen intake_inbox'`)).toEqual([])
  await sleep(100)
  expect(isClosed).toBe(false)
  await other.client.query('commit')
  await closed
  expect([await scene.inbox(), said]).toEqual([{ done: 1 }, []])

  await closeWhileLocked('p2', {
    ...systemClock,
    async sleep(milliseconds, signal) {
      if (milliseconds !== 15_000) await systemClock.sleep(milliseconds, signal)
    },
  })
  await other.client.query('rollback')
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 2 })
})

test('a drain that was closed leaves no timer', async () => {
  const { clock, sleeping } = openWatchedClock()
  const teams = [{ name: 'default', teamId: scene.teamId }]
  const drain = openDrain({ url: scene.url, teams, clock, logger: silent, watch: unwatched })
  await scene.store([patientEvent('p1', 1)])
  await drain.idle()
  await drain.close()
  expect(await sleeping()).toEqual([])
})
