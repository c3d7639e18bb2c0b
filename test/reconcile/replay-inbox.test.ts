/** Stored draining events again, by the command itself. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { runProgram } from '../../src/commands/program.ts'
import { systemClock } from '../../src/core/clock.ts'
import { replayInbox } from '../../src/reconcile/replay-inbox.ts'
import { noonPlus, openScene, patientEvent, type Scene, silent } from '../ingest/drain/scene.ts'
import { wholeWarehouse } from '../operate/whole-warehouse.ts'
import { runCommand } from '../support/run-command.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})

afterEach(() => scene[Symbol.asyncDispose]())

function replay(...words: string[]) {
  return runCommand(['replay', '--inbox', ...words], { DATABASE_URL: scene.url, LOG_LEVEL: 'error' })
}

it('events since a time are drained again, with the same result', async () => {
  await scene.store([patientEvent('early', 1)], { receivedAt: noonPlus(100) })
  await scene.store([patientEvent('a', 2), patientEvent('b', 3), patientEvent('a', 4, { city: 'Later' })], {
    receivedAt: noonPlus(200),
  })
  await scene.drain()
  const before = await wholeWarehouse(scene.url)
  await scene.rows('delete from intake.patients')
  await scene.rows(`delete from intake_raw.records`)
  const ended = await replay('--since', noonPlus(200), '--json')
  expect(ended.code, ended.output).toBe(0)
  expect(JSON.parse(ended.stdout)).toMatchObject({
    status: 'succeeded',
    inbox: { events: 3, done: 3, dead: 0, waiting: 0 },
  })
  const after = await wholeWarehouse(scene.url)
  const without = (lines: readonly string[]) => lines.filter((line) => !line.includes('"early"'))
  expect(after['intake.patients']).toEqual(without(before['intake.patients']!))
  expect(after['intake_raw.records']).toEqual(without(before['intake_raw.records']!))
  expect(await scene.rows(`select kind, status from intake_ops.runs`)).toEqual([
    { kind: 'replay', status: 'succeeded' },
  ])
})

it('at a terminal one line shows how many of the events are drained', async () => {
  await scene.store([patientEvent('a', 2), patientEvent('b', 3)])
  await scene.drain()
  let said = ''
  const code = await runProgram(['replay', '--inbox', '--since', '2020-01-01'], {
    env: { DATABASE_URL: scene.url, LOG_LEVEL: 'error' },
    stdout: { write: () => true },
    stderr: { write: (text) => (said += String(text)), isTTY: true },
    ...{ signal: new AbortController().signal, version: '0.0.0' },
  })
  expect([code, said]).toEqual([0, '\r2 of 2 events\n'])
})

it('an event that was tried in vain has all its tries again: what fails in passing is loaded', async () => {
  await scene.rows(`alter table intake.patients add constraint picky check (id <> 'a')`)
  await scene.store([patientEvent('a', 2)])
  await expect
    .poll(async () => {
      await scene.drain({ backoffMs: [1, 1] })
      return await scene.inbox()
    })
    .toEqual({ dead: 1 })
  // It is refused twice more: in its batch, and by itself.
  await scene.session.client.query(`
    alter table intake.patients drop constraint picky;
    create sequence tries;
    create function refuse() returns trigger language plpgsql as $$
    begin
      if nextval('tries') <= 2 then raise check_violation; end if;
      return new;
    end $$;
    create trigger refuse before insert on intake.patients for each row execute function refuse()`)
  const ended = await replay('--since', '2020-01-01', '--json')
  expect(ended.code, ended.output).toBe(0)
  expect(JSON.parse(ended.stdout).inbox).toEqual({ events: 1, done: 1, dead: 0, waiting: 0 })
})

it('events drained twice change nothing, and no event is waited for that is not due, or of another team', async () => {
  await scene.rows(`insert into intake.teams (name) values ('other')`)
  await scene.store([patientEvent('later', 1)])
  await scene.rows(`update intake_raw.inbox set due_at = '2100-01-01'`)
  const other = { teamId: scene.teamId + 1 }
  // Both teams have received this one.
  const same = patientEvent('same', 1)
  await scene.store([same], other)
  await scene.drain({ teams: [{ name: 'other', ...other }] })
  await scene.store([patientEvent('theirs', 1)], other)
  await scene.store([
    same,
    patientEvent('a', 2),
    patientEvent('b', 3),
    patientEvent('a', 4, { city: 'Later' }),
  ])
  await scene.drain()
  const before = await wholeWarehouse(scene.url)
  expect((await replay('--since', '2020-01-01', '--team', 'default')).code).toBe(0)
  expect(await wholeWarehouse(scene.url)).toEqual(before)
  expect(
    await scene.rows('select status from intake_raw.inbox where team_id = $1 order by seq', [other.teamId]),
  ).toEqual([{ status: 'done' }, { status: 'pending' }])
})

it('one that is stopped takes up no further events, and says so; progress ends with the last event', async () => {
  await scene.store([1, 2, 3, 4].map((at) => patientEvent(`p${at}`, at)))
  await scene.drain()
  const stop = new AbortController()
  const progress: (readonly number[])[] = []
  const options = {
    ...{ url: scene.url, since: noonPlus(0), streams: null, versions: new Map() },
    ...{ clock: systemClock, logger: silent, signal: stop.signal },
  }
  const noted = (...counts: readonly number[]) => void progress.push(counts)
  await replayInbox({ ...options, portion: 3, onProgress: noted })
  expect(progress.splice(0)).toEqual([
    [3, 4],
    [4, 4],
  ])
  await scene.rows('truncate intake_ops.runs cascade')
  const replayed = await replayInbox({
    ...{ ...options, portion: 1 },
    onProgress: (events, of) => {
      noted(events, of)
      if (events === 2) stop.abort()
    },
  })
  expect(progress).toEqual([
    [1, 4],
    [2, 4],
  ])
  expect(replayed).toMatchObject({ status: 'interrupted', events: 4, done: 4, waiting: 0 })
  expect(await scene.rows('select status, error, options from intake_ops.runs')).toEqual([
    {
      ...{ status: 'interrupted', error: null },
      options: { inbox: true, since: noonPlus(0), streams: null, teams: ['default'] },
    },
  ])
})

it('an event is taken up as it once arrived, after those that are pending, and the next when those before are drained', async () => {
  await scene.store([patientEvent('a', 1), 'no event at all', patientEvent('b', 2)])
  await scene.drain()
  await scene.rows(`update intake_raw.inbox set attempts = 3, due_at = '2100-01-01'`)
  const settled = `select settled_at is not null as settled, attempts from intake_raw.inbox`
  expect(await scene.rows(settled)).toEqual(Array(3).fill({ settled: true, attempts: 3 }))
  await scene.store([patientEvent('pending', 3)])
  const order = await scene.rows<{ id: string }>('select event_id as id from intake_raw.inbox order by seq')
  // The ingester sets none of these columns.
  const [fresh] = await scene.rows(
    `select status, attempts, due_at, settled_at from intake_raw.inbox where status = 'pending'`,
  )
  await scene.session.client.query(`
    create table seen (number serial, id text, row jsonb);
    create function see() returns trigger language plpgsql as $$
    begin
      insert into seen (id, row) values (new.event_id, to_jsonb(new));
      return null;
    end $$;
    create trigger see after update on intake_raw.inbox for each row execute function see()`)
  const options = {
    ...{ url: scene.url, since: noonPlus(0), streams: null, versions: new Map(), portion: 1 },
    ...{ clock: systemClock, logger: silent, signal: new AbortController().signal, onProgress: () => {} },
  }
  expect(await replayInbox(options)).toMatchObject({ events: 3, done: 2, dead: 1, waiting: 0 })
  const seen = await scene.rows<{ what: string }>(
    `select concat(row ->> 'status', ' ', id) as what from seen order by number`,
  )
  const [a, garbage, b, pending] = order.map(({ id }) => id)
  expect(seen.map(({ what }) => what)).toEqual([
    `done ${pending}`,
    ...[`pending ${a}`, `done ${a}`, `pending ${garbage}`, `dead ${garbage}`, `pending ${b}`, `done ${b}`],
  ])
  const states = `select distinct row ->> 'status' as status, (row -> 'attempts')::int as attempts, row ->> 'due_at' as due_at,
    row ->> 'settled_at' as settled_at from seen where row ->> 'status' = 'pending'`
  expect(await scene.rows(states)).toEqual([fresh])
})

it('a dead-lettered event is retried; if it fails again, it waits again', async () => {
  await scene.store(['no event at all', patientEvent('a', 2)])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 1, done: 1 })
  // Another team has one of an event with the same id.
  await scene.rows(`insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
    select team_id + 1, stream, fingerprint, origin, reason from intake_ops.dead_letters`)
  const ended = await replay('--since', '2020-01-01', '--json')
  expect(ended.code).toBe(4)
  expect(JSON.parse(ended.stdout)).toMatchObject({ inbox: { events: 2, done: 1, dead: 1 } })
  const deadLetters = await scene.rows('select status, team_id from intake_ops.dead_letters order by id')
  expect(deadLetters).toEqual([
    { status: 'retried', team_id: scene.teamId },
    { status: 'waiting', team_id: scene.teamId + 1 },
    { status: 'waiting', team_id: scene.teamId },
  ])
})

it('only events of the given streams are drained, and none without a time', async () => {
  await scene.store([
    patientEvent('a', 2),
    { id: 'e1', timestamp: noonPlus(3), event_type: 'updated', source: 'form', data: { id: 'f1' } },
  ])
  await scene.drain()
  const ended = await replay('--since', '2020-01-01', '--streams', 'forms', '--json')
  expect(JSON.parse(ended.stdout).inbox.events).toBe(1)
  expect((await replay()).code).toBe(2)
  expect((await replay('--since', 'yesterday')).code).toBe(2)
  expect((await runCommand(['replay', '--since', '2020-01-01'], { DATABASE_URL: scene.url })).code).toBe(2)
})

it('it ends although events keep arriving: it drains those stored when it began, and waits for no later ones', async () => {
  await scene.store([patientEvent('a', 2), patientEvent('b', 3)])
  await scene.drain()
  await scene.store([patientEvent('c', 4)])
  // Each drained event causes another one: one is always pending.
  await scene.session.client.query(`
    create sequence inflow;
    create function next_event() returns trigger language plpgsql as $$
    begin
      insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, body)
      values (new.team_id, 'inflow ' || nextval('inflow'), new.body_hash, new.received_on, new.received_at,
        new.event_type, new.source, new.body);
      return null;
    end $$;
    create trigger inflow after update of status on intake_raw.inbox for each row
    when (new.status = 'done') execute function next_event()`)
  const ended = await replay('--since', '2020-01-01', '--json')
  expect(ended.code, ended.output).toBe(0)
  expect(JSON.parse(ended.stdout).inbox).toEqual({ events: 2, done: 2, dead: 0, waiting: 0 })
  expect((await scene.inbox()).pending).toBeGreaterThan(0)
  const loaded = await scene.rows('select id from intake.patients order by id')
  expect(loaded.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
})

it.each([
  ['default', '', [{ id: 'd' }]],
  ['default', 'v2.1', []],
  ['other', '', []],
])(
  'where team %s requests version %j, an event is as whole as its own team requests it',
  async (team, version, documents) => {
    const data = { id: 'd', name: 'HIPAA', text: '', created_at: noonPlus(0), updated_at: noonPlus(0) }
    await scene.store([{ ...patientEvent('d', 1, {}, { source: 'document' }), data }])
    await scene.rows(`update intake_raw.inbox set status = 'done', settled_at = now()`)
    const access = { INTAKE_BASE_URL: 'http://127.0.0.1:1', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
    const own = { ...access, INTAKE_TEAM: team, INTAKE_API_VERSION: version }
    const env = { DATABASE_URL: scene.url, LOG_LEVEL: 'error', ...own }
    const ended = await runCommand(['replay', '--inbox', '--since', '2020-01-01'], env)
    expect(ended.code, ended.output).toBe(0)
    expect(await scene.rows('select id from intake.documents')).toEqual(documents)
    expect(await scene.asked()).toEqual(documents.length > 0 ? [] : ['documents d partial'])
  },
)
