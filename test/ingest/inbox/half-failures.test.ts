/** One of two storing connections fails, or one statement of several: no event is rejected, and none overtakes another. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { readEvent } from '../../../src/ingest/inbox/event.ts'
import { openInbox } from '../../../src/ingest/inbox/inbox.ts'
import { openWriter } from '../../../src/ingest/inbox/writer.ts'
import { createTestDatabase } from '../../support/database.ts'
import { openTestSession } from '../../support/sessions.ts'
import { eventOf, openRecorder, PATIENT, query } from '../support/ingest.ts'

let made = 0

/** An inbox whose login may open this many connections. */
async function openScene(connections: number) {
  const database = await createTestDatabase()
  made += 1
  const login = `half_${process.pid}_${made}_${Date.now()}`
  await query(
    database.url,
    `create role ${login} login password 'x' in role intake_loader connection limit ${connections}`,
  )
  const own = new URL(database.url)
  Object.assign(own, { username: login, password: 'x' })
  const { recorded, watch, logger } = openRecorder()
  const inbox = await openInbox({
    ...{ url: own.href, clock: systemClock, logger, watch, onStored: () => {}, limits: PATIENT },
  })
  onTestFinished(async () => {
    await inbox.close()
    await query(database.url, `drop role ${login}`)
    await database.drop()
  })
  const { url } = database
  /** Process ids of the connections that store. */
  const writers = async () =>
    (
      await query<{ pid: number }>(
        url,
        `select pid from pg_stat_activity where usename = $1 and application_name = 'intake-sync ingest' order by pid`,
        [login],
      )
    ).map(({ pid }) => pid)
  const allow = (count: number) => query(url, `alter role ${login} connection limit ${count}`)
  const end = (pid: number) => query(url, 'select pg_terminate_backend($1, 5000)', [pid])
  return { url, inbox, recorded, writers, allow, end }
}

const event = (fields: object = {}) => readEvent(1, eventOf({ ...fields }))
const idsIn = async (url: string) =>
  (await query<{ id: string }>(url, 'select event_id as id from intake_raw.inbox order by seq')).map(
    ({ id }) => id,
  )

/** Many at once, then some one by one. */
async function storeMany(inbox: Awaited<ReturnType<typeof openInbox>>): Promise<readonly string[]> {
  const outcomes: string[] = await Promise.all(Array.from({ length: 60 }, () => inbox.store(event())))
  for (let at = 0; at < 10; at += 1) outcomes.push(await inbox.store(event()))
  return outcomes
}

it('a failure that is not of the connection is trouble for five seconds, or until events are stored again', async () => {
  const database = await createTestDatabase()
  const { recorded: _, watch, logger } = openRecorder()
  let later = 0
  const clock = { ...systemClock, now: () => systemClock.now() + later }
  const inbox = await openInbox({
    ...{ url: database.url, clock, logger, watch, onStored: () => {}, limits: PATIENT },
  })
  onTestFinished(async () => {
    await inbox.close()
    await database.drop()
  })
  const fail = async () => {
    await query(database.url, 'alter table intake_raw.inbox rename to elsewhere')
    await expect(inbox.store(event())).rejects.toThrow()
    await query(database.url, 'alter table intake_raw.elsewhere rename to inbox')
  }
  await fail()
  expect(inbox.trouble()).not.toBeNull()
  later = 4_000_000
  expect(inbox.trouble()).not.toBeNull()
  later = 5_000_000
  expect(inbox.trouble()).toBeNull()
  await fail()
  expect(inbox.trouble()).not.toBeNull()
  expect(await inbox.store(event())).toBe('stored')
  expect(inbox.trouble()).toBeNull()
})

it('an event that fails again and again for a passing reason is rejected after ten attempts, and others are stored', async () => {
  const { url, inbox, recorded } = await openScene(10)
  await query(
    url,
    `create sequence intake_raw.tries;
     create function intake_raw.fail() returns trigger language plpgsql security definer as $$
     begin
       perform nextval('intake_raw.tries');
       raise exception 'not yet' using errcode = '40001';
     end $$;
     create trigger fail before insert on intake_raw.inbox for each row when (new.source = 'poison') execute function intake_raw.fail()`,
  )
  await expect(inbox.store(event({ source: 'poison' }))).rejects.toMatchObject({ verdict: 'retry' })
  expect(await query(url, 'select last_value::int as tries from intake_raw.tries')).toEqual([{ tries: 10 }])
  const said = () => recorded.logged.filter((line) => line.includes('events could not be stored')).length
  expect(said()).toBe(1)
  expect(await inbox.store(event())).toBe('stored')
  expect(recorded.logged.filter((line) => line.includes('events are stored again'))).toHaveLength(1)
})

it('one that cannot reconnect leaves the work to the other, and returns when it can', async () => {
  const { url, inbox, recorded, writers, allow, end } = await openScene(10)
  await inbox.store(event())
  const [first, second] = await writers()
  expect(second).toBeDefined()
  await allow(0)
  await end(first!)
  // Time for several failed attempts to connect.
  await sleep(400)
  expect(await writers()).toEqual([second])
  expect(new Set(await storeMany(inbox))).toEqual(new Set(['stored']))
  expect(inbox.trouble()).toBeNull()
  expect(recorded.logged.filter((line) => line.includes('503'))).toEqual([])
  await allow(10)
  await expect.poll(writers).toHaveLength(2)
  expect(await writers()).toContain(second)
  expect(new Set(await storeMany(inbox))).toEqual(new Set(['stored']))
  expect((await idsIn(url)).length).toBe(141)
})

it('one that cannot connect at the start does not affect events', async () => {
  const { inbox, recorded, writers, allow } = await openScene(1)
  // Two that connect at the same time may both be rejected, and retry.
  await expect.poll(writers).toHaveLength(1)
  await expect.poll(() => inbox.trouble()).toBeNull()
  const said = recorded.logged.length
  expect(new Set(await storeMany(inbox))).toEqual(new Set(['stored']))
  expect(recorded.logged.slice(said).filter((line) => line.includes('503'))).toEqual([])
  await allow(10)
  await expect.poll(writers).toHaveLength(2)
})

it('when the last one is lost too, events are rejected with the reason, until one is back', async () => {
  const { url, inbox, recorded, writers, allow, end } = await openScene(10)
  await inbox.store(event())
  await allow(0)
  for (const pid of await writers()) await end(pid)
  await expect.poll(() => inbox.trouble()).not.toBeNull()
  await expect(inbox.store(event())).rejects.toMatchObject({ verdict: 'retry' })
  await allow(10)
  await expect.poll(() => inbox.store(event()).catch(() => null)).toBe('stored')
  expect(inbox.trouble()).toBeNull()
  expect((await idsIn(url)).length).toBe(2)
  // Each attempt to connect failed for the same reason.
  const said = recorded.logged
    .map((line) => JSON.parse(line))
    .map(({ level, code, msg }) => [level, code, msg])
  expect(said).toEqual([
    [40, 'connections', 'events are answered 503: the warehouse has no connection left'],
    [30, undefined, 'the warehouse is back: events are stored again'],
  ])
})

it('events of a failed statement are stored before those that arrived after them', async () => {
  const { url, inbox, writers, end } = await openScene(10)
  await inbox.store(event())
  const lock = await openTestSession(url)
  const waiting = async () =>
    (
      await query<{ pid: number }>(
        url,
        `select pid from pg_stat_activity
         where datname = current_database() and application_name = 'intake-sync ingest' and wait_event_type = 'Lock'`,
      )
    ).map(({ pid }) => pid)
  const store = (name: string, count: number) =>
    Array.from({ length: count }, (_, at) => inbox.store(event({ id: `${name} ${at}` })))
  try {
    await lock.query('begin; lock table intake_raw.inbox in share mode')
    // As many as one statement takes: in progress, and blocked.
    const first = store('first', 500)
    await expect.poll(waiting).toHaveLength(1)
    // Fewer than are in progress wait for them.
    const second = store('second', 400)
    const [blocked] = await waiting()
    expect(await writers()).toContain(blocked)
    await end(blocked!)
    await expect.poll(waiting).toHaveLength(1)
    expect(await waiting()).not.toContain(blocked)
    await lock.query('rollback')
    expect(new Set(await Promise.all([...first, ...second]))).toEqual(new Set(['stored']))
  } finally {
    await lock.end()
  }
  // Within one statement events are written in the order of their hashes.
  const order = (await idsIn(url)).slice(1).map((id) => id.split(' ')[0])
  expect(order).toEqual([...Array(500).fill('first'), ...Array(400).fill('second')])
})

it('one that is closed while it connects leaves no connection open', async () => {
  await using database = await createTestDatabase()
  const writer = await openWriter({
    ...{ url: database.url, clock: systemClock, statementMs: 60_000, onChange: () => {} },
  })
  writer.renew()
  await writer.close()
  expect([writer.isConnected, writer.isFree]).toEqual([false, false])
})

it('after a statement that is not answered in time every connection is a new one, and events are stored again', async () => {
  const database = await createTestDatabase()
  const { recorded, watch, logger } = openRecorder()
  let later = 0
  const clock = { ...systemClock, now: () => systemClock.now() + later }
  const inbox = await openInbox({
    ...{ url: database.url, clock, logger, watch, onStored: () => {}, limits: PATIENT },
  })
  const lock = await openTestSession(database.url)
  onTestFinished(async () => {
    await lock.end()
    await inbox.close()
    await database.drop()
  })
  const writers = async () =>
    (
      await query<{ pid: number; waits: boolean }>(
        database.url,
        `select pid, wait_event_type = 'Lock' as waits from pg_stat_activity
         where datname = current_database() and application_name = 'intake-sync ingest' order by pid`,
      )
    ).map(({ pid, waits }) => ({ pid, waits }))
  await lock.query('begin; lock table intake_raw.inbox in share mode')
  const late = inbox.store(event())
  await expect.poll(async () => (await writers()).filter(({ waits }) => waits)).toHaveLength(1)
  const before = (await writers()).map(({ pid }) => pid)
  later = 60_000_000
  await expect(late).rejects.toMatchObject({ code: 'warehouse_slow', verdict: 'retry' })
  await lock.query('rollback')
  await expect.poll(async () => (await writers()).filter(({ pid }) => !before.includes(pid))).toHaveLength(2)
  await expect.poll(() => inbox.trouble()).toBeNull()
  expect(await inbox.store(event())).toBe('stored')
  expect(recorded.logged.map((line) => JSON.parse(line).msg)).toEqual([
    'events are answered 503: the warehouse did not answer in time',
    'the warehouse is back: events are stored again',
    'events are stored again',
  ])
})

it('one that cannot connect tries again after growing pauses, of a second at most, until it is closed', async () => {
  const pauses: number[] = []
  const failures: unknown[] = []
  let enough: () => void
  const tried = new Promise<void>((resolve) => (enough = resolve))
  const clock = {
    ...systemClock,
    async sleep(milliseconds: number, signal?: AbortSignal) {
      pauses.push(milliseconds)
      if (pauses.length < 7) return
      enough()
      await systemClock.sleep(60_000, signal)
    },
  }
  const writer = await openWriter({
    ...{ url: 'postgres://nobody@127.0.0.1:9/none', clock, statementMs: 60_000 },
    onChange: (failure) => void failures.push(failure?.code),
  })
  await tried
  await writer.close()
  expect(pauses).toEqual([50, 100, 200, 400, 800, 1_000, 1_000])
  expect(failures).toEqual(Array(8).fill('warehouse_unreachable'))
})

it('without a warehouse it is said once that events are answered 503, however often connecting is tried', async () => {
  const { recorded, watch, logger } = openRecorder()
  let pauses = 0
  let enough: () => void
  const tried = new Promise<void>((resolve) => (enough = resolve))
  const clock = {
    ...systemClock,
    async sleep(_: number, signal?: AbortSignal) {
      pauses += 1
      if (pauses < 12) return
      enough()
      await systemClock.sleep(60_000, signal)
    },
  }
  const inbox = await openInbox({
    ...{
      url: 'postgres://nobody@127.0.0.1:9/none',
      clock,
      logger,
      watch,
      onStored: () => {},
      limits: PATIENT,
    },
  })
  await tried
  const reason = 'cannot reach the warehouse, or lost the connection to it'
  expect(inbox.trouble()).toBe(reason)
  await expect(inbox.store(event())).rejects.toMatchObject({ code: 'warehouse_unreachable' })
  await inbox.close()
  const said = recorded.logged
    .map((line) => JSON.parse(line))
    .map(({ level, code, msg }) => [level, code, msg])
  expect(said).toEqual([[40, 'warehouse_unreachable', `events are answered 503: ${reason}`]])
})
