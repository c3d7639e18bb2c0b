/** A stored body that is loaded again: whether it wins over the stored state follows from the order of the runs. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CHANNEL } from '../../src/ingest/inbox/notices.ts'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { discardDeadLetters, retryDeadLetters } from '../../src/operate/retry-dead-letters.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { openScene, type Scene } from '../ingest/drain/scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene[Symbol.asyncDispose]())

/** Loads the body of a dead letter of this run; returns the name that is stored then. */
async function retried(id: string, name: string, run: number): Promise<unknown> {
  const { session, teamId } = scene
  const body = JSON.stringify({ id, name, form: null, created_at: '2026-01-01T00:00:00Z' })
  const deadLetter = { recordId: id, origin: `run:${run} page:1`, reason: 'no', body }
  await storeDeadLetters(session.db, { teamId, stream: 'exports', runId: String(run) }, [deadLetter])
  const [row] = await scene.rows<{ id: number }>('select max(id)::int as id from intake_ops.dead_letters')
  expect(await retryDeadLetters(session, [row!.id])).toEqual([{ id: row!.id, outcome: 'loaded' }])
  const [stored] = await scene.rows<{ name: string }>('select name from intake.exports where id = $1', [id])
  return stored!.name
}

/** The stored state was read by a service whose clock is apart by this much. */
async function readApart(id: string, apart: string): Promise<void> {
  const stamps = `now() + interval '${apart}'`
  await scene.rows(
    `update intake_raw.records set version = ${stamps}, observed_at = ${stamps} where id = $1`,
    [id],
  )
  await scene.rows(`update intake.exports set _version = ${stamps} where id = $1`, [id])
}

test.each(['-1 hour', '1 hour'])(
  'of two runs, the later one read the newer state, though the clock of the service is apart by %s',
  async (apart) => {
    const id = `e ${apart}`
    expect(await retried(id, 'first', 5)).toBe('first')
    await readApart(id, apart)
    expect(await retried(id, 'of a later run', 7)).toBe('of a later run')
    await readApart(id, apart)
    expect(await retried(id, 'of an earlier run', 6)).toBe('of a later run')
    expect(await retried(id, 'of the same run', 7)).toBe('of a later run')
  },
)

test('a body of a later run is newer than a state whose version is ahead of its reading, and is never older than it was stored', async () => {
  const versions = async () =>
    (
      await scene.rows<{ seconds: number }>(
        `select extract(epoch from version - now())::float8 as seconds from intake_raw.records where id = 'e ahead'`,
      )
    )[0]!.seconds
  const set = (version: string, observed: string) =>
    scene.rows(
      `update intake_raw.records set version = now() + interval '${version}', observed_at = now() + interval '${observed}'
       where id = 'e ahead'`,
    )
  expect(await retried('e ahead', 'first', 5)).toBe('first')
  await set('1 hour', '-1 hour')
  await scene.rows(`update intake.exports set _version = now() + interval '1 hour' where id = 'e ahead'`)
  expect(await retried('e ahead', 'second', 6)).toBe('second')
  expect(await versions()).toBeGreaterThan(3_000)
  await set('-2 hours', '-1 hour')
  await scene.rows(`update intake.exports set _version = now() - interval '2 hours' where id = 'e ahead'`)
  expect(await retried('e ahead', 'third', 7)).toBe('third')
  expect(Math.abs(await versions())).toBeLessThan(600)
})

test('all that are named are discarded, of records and of events, and no other; or none, if one of them does not wait', async () => {
  const { session, teamId } = scene
  const ids: number[] = []
  for (const [stream, recordId] of [
    ['inbox', null],
    ['forms', 'a'],
    ['forms', 'b'],
  ] as const) {
    const deadLetter = { recordId, origin: `event:${ids.length} of discard`, reason: 'no', body: '{}' }
    await storeDeadLetters(session.db, { teamId, stream, runId: null }, [deadLetter])
    const [row] = await scene.rows<{ id: number }>('select max(id)::int as id from intake_ops.dead_letters')
    ids.push(row!.id)
  }
  const statuses = async () =>
    (
      await scene.rows<{ line: string }>(
        `select concat(status, case when settled_at > now() - interval '1 hour' then ' now' end) as line
         from intake_ops.dead_letters where id = any($1) order by id`,
        [ids],
      )
    ).map(({ line }) => line)
  await expect(discardDeadLetters(session.db, [ids[0]!, 2_000_000_000])).rejects.toMatchObject({
    ...{
      code: 'no_such_letter',
      message: expect.stringContaining('has the id 2000000000; nothing was done'),
    },
  })
  expect(await statuses()).toEqual(['waiting', 'waiting', 'waiting'])
  await discardDeadLetters(session.db, ids.slice(0, 2))
  expect(await statuses()).toEqual(['discarded now', 'discarded now', 'waiting'])
  await discardDeadLetters(session.db, ids.slice(2))
})

test('an event whose day of the inbox is gone comes back today, with the time of its arrival', async () => {
  const { session, teamId } = scene
  const event = { id: 'of a dropped day', event_type: 'updated', source: 'form', data: { id: 'f-7' } }
  const body = JSON.stringify({ ...event, timestamp: '2026-01-01T00:00:00Z' })
  await storeDeadLetters(session.db, { teamId, stream: 'inbox', runId: null }, [
    { recordId: null, origin: `event:${event.id}`, reason: 'no', body },
  ])
  await scene.rows(
    `update intake_ops.dead_letters set created_at = '2026-02-03T04:05:06.000007Z' where origin = $1`,
    [`event:${event.id}`],
  )
  const [row] = await scene.rows<{ id: number }>('select max(id)::int as id from intake_ops.dead_letters')
  await scene.rows('delete from intake_raw.inbox')
  expect(await retryDeadLetters(session, [row!.id])).toEqual([{ id: row!.id, outcome: 'pending' }])
  expect(
    await scene.rows(
      `select received_on >= (now() at time zone 'UTC')::date - 1 as is_today, received_at = '2026-02-03T04:05:06.000007Z' as is_kept,
         event_id, event_type, source, record_id, status, attempts, body_hash = sha256(body) as is_whole from intake_raw.inbox`,
    ),
  ).toEqual([
    {
      ...{ is_today: true, is_kept: true, is_whole: true, event_id: event.id, event_type: 'updated' },
      ...{ source: 'form', record_id: 'f-7', status: 'pending', attempts: 0 },
    },
  ])
  await scene.rows('delete from intake_raw.inbox')
})

test('one that cannot be tried waits on: of no known stream, or while the warehouse cannot store it', async () => {
  const { session, teamId } = scene
  const put = async (stream: 'inbox' | 'exports', id: string) => {
    const body = JSON.stringify({ id, name: id, form: null })
    const deadLetter = { recordId: id, origin: 'run:1 page:1', reason: 'no', body }
    await storeDeadLetters(session.db, { teamId, stream, runId: '1' }, [deadLetter])
    const [row] = await scene.rows<{ id: number }>('select max(id)::int as id from intake_ops.dead_letters')
    return row!.id
  }
  const status = async (id: number) =>
    (await scene.rows('select status, settled_at from intake_ops.dead_letters where id = $1', [id]))[0]
  const odd = await put('inbox', 'odd')
  expect(await retryDeadLetters(session, [odd])).toEqual([
    { id: odd, outcome: 'not_possible', why: 'its stream is unknown' },
  ])
  await scene.rows(
    `create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100'; end $$`,
  )
  await scene.rows('create trigger fail before insert on intake.exports for each row execute function fail()')
  const full = await put('exports', 'full')
  await expect(retryDeadLetters(session, [full])).rejects.toMatchObject({ code: '53100' })
  for (const id of [odd, full]) expect(await status(id)).toEqual({ status: 'waiting', settled_at: null })
  await scene.rows('drop trigger fail on intake.exports')
  // The session is not left in a transaction.
  expect(await retryDeadLetters(session, [full])).toEqual([{ id: full, outcome: 'loaded' }])
})

test('a record of another stream with the same id does not decide whether a stored body wins', async () => {
  await scene.rows(
    `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
     values ($1, 'forms', 'e twin', '2100-01-01', '2100-01-01', '\\x00', 'run:3 page:1', '{}')`,
    [scene.teamId],
  )
  expect(await retried('e twin', 'first', 5)).toBe('first')
  const [stored] = await scene.rows<{ ahead: boolean }>(
    `select version > now() + interval '1 day' as ahead from intake_raw.records where stream = 'exports' and id = 'e twin'`,
  )
  expect(stored).toEqual({ ahead: false })
})

test('events go back to the inbox, whatever their ids are, and the drain is woken once for all of them', async () => {
  const { session, teamId } = scene
  const ids = ['of two words', 'of two\nlines', 'x refetch of y', 'plain']
  const event = (id: string) =>
    JSON.stringify({
      id,
      event_type: 'exploded',
      source: 'nothing',
      timestamp: '2026-01-01T00:00:00Z',
      data: null,
    })
  await scene.store(ids.map(event))
  await scene.rows(`update intake_raw.inbox set status = 'dead', attempts = 9, settled_at = now()`)
  for (const id of ids)
    await storeDeadLetters(session.db, { teamId, stream: 'inbox', runId: null }, [
      { recordId: null, origin: `event:${id}`, reason: 'no', body: event(id) },
    ])
  const odd = { recordId: 'odd 2', origin: 'run:1 page:1', reason: 'no', body: '{}' }
  await storeDeadLetters(session.db, { teamId, stream: 'inbox', runId: '1' }, [odd])
  const waiting = await scene.rows<{ id: number; origin: string }>(
    `select id::int, origin from intake_ops.dead_letters where status = 'waiting' and origin ~ '^event' or record_id = 'odd 2'
     order by 1`,
  )
  expect(waiting).toHaveLength(5)
  await using listener = await openSession({ url: scene.url, purpose: 'listener' })
  await listener.client.query(`listen ${CHANNEL}`)
  let woken = 0
  listener.client.on('notification', () => {
    woken += 1
  })
  const retried = await retryDeadLetters(
    session,
    waiting.map(({ id }) => id),
  )
  expect(retried.map(({ outcome }) => outcome)).toEqual([...ids.map(() => 'pending'), 'not_possible'])
  expect(
    await scene.rows('select event_id as id, status, attempts from intake_raw.inbox order by seq'),
  ).toEqual(ids.map((id) => ({ id, status: 'pending', attempts: 0 })))
  await listener.client.query('select 1')
  expect(woken).toBe(1)
  // Where no event came back, nobody is woken.
  await retryDeadLetters(session, [waiting.at(-1)!.id])
  await listener.client.query('select 1')
  expect(woken).toBe(1)
})
