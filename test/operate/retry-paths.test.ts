/** Each way in which a dead letter is retried, and why it may not be possible; what cannot be retried waits on. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { StreamOrInbox } from '../../src/core/envelope.ts'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { retryDeadLetters } from '../../src/operate/retry-dead-letters.ts'
import { openScene, type Scene } from '../ingest/drain/scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
beforeEach(async () => {
  await scene.rows('truncate intake_ops.dead_letters, intake_ops.refetches cascade')
  await scene.rows('delete from intake_raw.inbox')
})
afterAll(() => scene[Symbol.asyncDispose]())

async function put(stream: StreamOrInbox, recordId: string | null, origin: string, body: string) {
  const { session, teamId } = scene
  await storeDeadLetters(session.db, { teamId, stream, runId: '1' }, [
    { recordId, origin, reason: 'no', body },
  ])
  const [row] = await scene.rows<{ id: number }>('select max(id)::int as id from intake_ops.dead_letters')
  return row!.id
}
const statuses = async () =>
  (await scene.rows<{ status: string }>('select status from intake_ops.dead_letters order by id')).map(
    ({ status }) => status,
  )
const asked = () =>
  scene.rows('select team_id, stream, id, reason, origin, since from intake_ops.refetches order by origin')

test('a record that can be fetched by its id is asked for, also one that an event had asked for', async () => {
  const { teamId, session } = scene
  const page = await put('patients', 'p-1', 'run:1 page:1', '{}')
  const refetched = await put('forms', 'f-1', 'event:e refetch', '{}')
  expect(await retryDeadLetters(session, null)).toEqual([
    { id: page, outcome: 'asked' },
    { id: refetched, outcome: 'asked' },
  ])
  const own = { team_id: teamId, reason: 'contested', since: null }
  expect(await asked()).toEqual([
    { ...own, stream: 'patients', id: 'p-1', origin: `dead letter ${page}` },
    { ...own, stream: 'forms', id: 'f-1', origin: `dead letter ${refetched}` },
  ])
  expect(await statuses()).toEqual(['retried', 'retried'])
  expect(await scene.inbox()).toEqual({})
})

test('a record without an id, or whose stream has no such request, is loaded from its stored body if that is whole', async () => {
  const { session } = scene
  const whole = await put('patients', null, 'run:1 page:1', JSON.stringify({ id: 'p-2', first_name: 'Ann' }))
  const nameless = await put('patients', null, 'run:1 page:2', JSON.stringify({ first_name: 'Ann' }))
  const cut = await put('exports', 'e', 'run:1 page:1', '{"id": "e')
  const file = await put('exports', 'e', 'run:1 file', 'Client ID')
  const profile = await put(
    'exports',
    'e-2',
    'run:1 profile',
    JSON.stringify({ id: 'e-2', name: 'E', form: null }),
  )
  const why = 'not_possible' as const
  expect(await retryDeadLetters(session, null)).toEqual([
    { id: whole, outcome: 'loaded' },
    { id: nameless, outcome: why, why: expect.stringMatching(/^the stored body .*\bid\b.*, as before$/) },
    {
      ...{ id: cut, outcome: why },
      why: 'the stored body cannot be parsed; the next full backfill may return the whole record',
    },
    { id: file, outcome: why, why: 'the next backfill fetches the files of exports again' },
    { id: profile, outcome: 'loaded' },
  ])
  expect(await statuses()).toEqual(['retried', 'waiting', 'waiting', 'waiting', 'retried'])
  expect(await scene.rows(`select first_name from intake.patients where id = 'p-2'`)).toEqual([
    { first_name: 'Ann' },
  ])
  expect(await asked()).toEqual([])
})

test('of two events with one id, the one whose body it is comes back, and neither that of another team nor one that is done', async () => {
  const { session, teamId } = scene
  const body = (note: string) =>
    JSON.stringify({
      id: 'twice',
      event_type: 'exploded',
      source: 'nothing',
      timestamp: null,
      data: { note },
    })
  const store = (team: number, note: string, status: string, day = '2026-01-01') =>
    scene.rows(
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status, attempts, due_at, settled_at)
       values ($1, 'twice', sha256(convert_to($2, 'UTF8')), $4, now(), convert_to($2, 'UTF8'), $3, 4, now(), now())`,
      [team, body(note), status, day],
    )
  await store(teamId, 'first', 'dead')
  await store(teamId, 'second', 'dead')
  await store(teamId, 'third', 'done')
  // It came on another day too, and was processed then.
  await store(teamId, 'first', 'done', '2026-01-02')
  await store(teamId + 1, 'first', 'dead')
  const id = await put('inbox', null, 'event:twice', body('first'))
  expect(await retryDeadLetters(session, [id])).toEqual([{ id, outcome: 'pending' }])
  expect(
    await scene.rows(
      `select team_id - $1 as team, convert_from(body, 'UTF8')::json -> 'data' ->> 'note' as note, status, attempts,
         due_at is null and settled_at is null as is_new from intake_raw.inbox order by 1, 2, received_on`,
      [teamId],
    ),
  ).toEqual([
    { team: 0, note: 'first', status: 'pending', attempts: 0, is_new: true },
    { team: 0, note: 'first', status: 'done', attempts: 4, is_new: false },
    { team: 0, note: 'second', status: 'dead', attempts: 4, is_new: false },
    { team: 0, note: 'third', status: 'done', attempts: 4, is_new: false },
    { team: 1, note: 'first', status: 'dead', attempts: 4, is_new: false },
  ])
})

test('an event whose dead letter was cleansed is retried with its whole body, once, and not as another event with its id', async () => {
  const { session, teamId } = scene
  const event = (file: string, key: string) =>
    JSON.stringify({
      ...{ id: 'with files', event_type: 'created', source: 'response', timestamp: '2026-01-01T00:00:00Z' },
      data: { id: 'r', files: [{ url: `https://a.example/${file}${key}` }] },
    })
  for (const file of ['first', 'second'])
    await scene.rows(
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, record_id, body, status, attempts, settled_at)
       values ($1, 'with files', sha256(convert_to($2, 'UTF8')), '2026-01-01', now(), 'response', 'r', convert_to($2, 'UTF8'), 'dead', 4, now())`,
      [teamId, event(file, '?key=1')],
    )
  const id = await put('responses', 'r', 'event:with files', event('second', ''))
  expect(await retryDeadLetters(session, [id])).toEqual([{ id, outcome: 'pending' }])
  expect(
    await scene.rows(
      `select convert_from(body, 'UTF8') as body, status, attempts from intake_raw.inbox order by 1`,
    ),
  ).toEqual([
    { body: event('first', '?key=1'), status: 'dead', attempts: 4 },
    { body: event('second', '?key=1'), status: 'pending', attempts: 0 },
  ])
  expect(await asked()).toEqual([])
})

test('an id that does not wait stops all of them; those of a team that was removed wait on', async () => {
  const { session, teamId } = scene
  const [first, second] = [
    await put('patients', 'p-3', 'run:1 page:1', '{}'),
    await put('inbox', null, 'event:e', '{}'),
  ]
  await scene.rows(
    `update intake_ops.dead_letters set status = 'resolved', settled_at = now() where id = $1`,
    [second],
  )
  await expect(retryDeadLetters(session, [first, second, 2_000_000_001])).rejects.toMatchObject({
    ...{ code: 'no_such_letter', verdict: 'stop' },
    message: `no waiting dead letter has the id ${second}, 2000000001; nothing was done`,
    hint: 'intake-sync dead-letters list shows those that wait; --status all shows every one',
  })
  expect([await statuses(), await asked()]).toEqual([['waiting', 'resolved'], []])
  await scene.rows(
    `insert into intake_ops.removed_teams (team_id, name, data) select team_id, name, 'kept' from intake.teams where team_id = $1`,
    [teamId],
  )
  expect(await retryDeadLetters(session, null)).toEqual([
    { id: first, outcome: 'not_possible', why: 'its team was removed' },
  ])
  expect([await statuses(), await asked()]).toEqual([['waiting', 'resolved'], []])
})
