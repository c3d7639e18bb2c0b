/** A stored body that is loaded again: whether it wins over the stored state follows from the order of the runs. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CHANNEL } from '../../src/ingest/inbox/notices.ts'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { retryDeadLetters } from '../../src/operate/retry-dead-letters.ts'
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
