/** `dead-letters`: shown without values by default, with content on request, and retried through the normal pipeline. */
import { stripVTControlCharacters } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { instantOf } from '../../../src/core/time.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openScene, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { runCommand } from '../../support/run-command.ts'

const CANARY = 'Kanarienvogel7351'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})
afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const deadLetters = (words: string, columns?: number) =>
  runCommand(
    ['dead-letters', ...words.split(' ')],
    { DATABASE_URL: scene.url },
    columns === undefined ? {} : { columns },
  )
const documentOf = async (words: string) => JSON.parse((await deadLetters(`${words} --json`)).stdout)
const statusOf = async (id: number) =>
  (await scene.rows<{ status: string }>('select status from intake_ops.dead_letters where id = $1', [id]))[0]
    ?.status

async function put(deadLetter: Partial<Parameters<typeof storeDeadLetters>[2][number]>): Promise<number> {
  const whole = {
    recordId: null,
    origin: 'run:1 page:2',
    reason: 'has no id',
    body: `{"name":"${CANARY}"}`,
    ...deadLetter,
  }
  await using session = await openSession({ url: scene.url, purpose: 'test' })
  const count = await storeDeadLetters(
    session.db,
    { teamId: scene.teamId, stream: 'patients', runId: null },
    [whole],
  )
  if (count === 0) return 0
  const [row] = await scene.rows<{ id: number }>('select max(id)::int as id from intake_ops.dead_letters')
  return row!.id
}

test('the list shows the reason and never the content; on a terminal of 80 columns it fits', async () => {
  await put({})
  await put({ recordId: 'p-1', reason: `cannot be read: ${'for a long reason '.repeat(9)}` })
  const list = await deadLetters('list')
  expect(list.code).toBe(0)
  expect(list.stdout).toContain('has no id')
  expect(list.stdout).toContain('for a long reason '.repeat(9).trim())
  expect(list.output).not.toContain(CANARY)
  const shown = stripVTControlCharacters((await deadLetters('list', 80)).stdout)
  for (const line of shown.split('\n')) expect([...line].length).toBeLessThanOrEqual(80)
  expect(await documentOf('list --limit 1')).toMatchObject({
    total: 2,
    dead_letters: [
      { id: 2, team: 'default', stream: 'patients', record_id: 'p-1', status: 'waiting', seen: 1 },
    ],
  })
  expect(await documentOf('list --status discarded')).toEqual({ total: 0, dead_letters: [] })
  expect(await documentOf('list --stream inbox --team default')).toEqual({ total: 0, dead_letters: [] })
})

test('the list of an unknown team exits with 2 and names the teams', async () => {
  expect(await deadLetters('list --team nobody')).toMatchObject({
    code: 2,
    stdout: '',
    stderr:
      'error: the warehouse has no team "nobody"\n  hint: use one of: default\ncode: unknown_team, see docs/errors.md#unknown_team\n',
  })
})

test('show prints the origin, and the content only on request', async () => {
  const id = await put({})
  const plain = await deadLetters(`show ${id}`)
  expect(plain.stdout).toContain('run:1 page:2')
  expect(plain.output).not.toContain(CANARY)
  expect((await deadLetters(`show ${id} --json`)).output).not.toContain(CANARY)
  expect((await deadLetters(`show ${id} --show-values`)).stdout).toContain(CANARY)
  expect((await documentOf(`show ${id} --show-values`)).content).toBe(`{"name":"${CANARY}"}`)
  const none = await deadLetters('show 99')
  expect([none.code, none.stderr]).toEqual([
    1,
    expect.stringMatching(/there is no dead letter 99\n[\s\S]*code: no_such_letter/),
  ])
  expect((await deadLetters('show ninety')).code).toBe(2)
})

test('show fits 80 columns, however long the ids are', async () => {
  const recordId = `p-${'0123456789'.repeat(18)}`
  const origin = `run:1 window:${'2026-01-01T00:00:00Z..'.repeat(6)} page:2`
  const id = await put({ recordId, origin, reason: `cannot be read: ${'for a long reason '.repeat(9)}` })
  const shown = stripVTControlCharacters((await deadLetters(`show ${id}`, 80)).stdout)
  for (const line of shown.split('\n')) expect([...line].length).toBeLessThanOrEqual(80)
  expect(shown.replaceAll(/\s/g, '')).toContain(recordId)
  expect(shown.replaceAll(/\s/g, '')).toContain(origin.replaceAll(' ', ''))
  const plain = (await deadLetters(`show ${id}`)).stdout
  expect(plain).toContain(`\nrecord       ${recordId}\n`)
})

test('a retried event returns to the inbox, and is loaded if it can be read now', async () => {
  const event = {
    ...{ id: 'e-1', timestamp: '2026-01-01T12:00:01Z', event_type: 'deleted', source: 'patient' },
    data: {},
  }
  await scene.store([event])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 1 })
  const ended = await deadLetters('retry 1')
  expect([ended.code, ended.stdout]).toEqual([0, expect.stringContaining('back in the inbox')])
  expect(await scene.inbox()).toEqual({ pending: 1 })
  expect(await statusOf(1)).toBe('retried')
  // Still unreadable: a new dead letter.
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 1 })
  expect(await scene.rows('select id::int, status from intake_ops.dead_letters order by id')).toEqual([
    { id: 1, status: 'retried' },
    { id: 2, status: 'waiting' },
  ])
})

test('whatever else is retried with it, an event that is back in the inbox wakes the serve that drains', async () => {
  await scene.store([{ ...patientEvent('p-1', 1), event_type: 'deleted', data: {} }])
  await scene.drain()
  await put({ recordId: 'p-2' })
  await put({ body: '{"cut' })
  await using session = await openSession({ url: scene.url, purpose: 'test' })
  const notices: string[] = []
  session.client.on('notification', ({ channel }) => notices.push(channel))
  await session.client.query('listen intake_inbox')
  await deadLetters('retry --all')
  await session.client.query('select')
  expect(await scene.inbox()).toEqual({ pending: 1 })
  expect(notices).toEqual(['intake_inbox'])
  // Where none is an event, nobody is woken.
  await put({ recordId: 'p-3' })
  await deadLetters('retry --all')
  await session.client.query('select')
  expect(notices).toEqual(['intake_inbox'])
})

test('an event that is retried has all its tries again', async () => {
  await scene.rows(`alter table intake.patients add constraint picky check (last_name <> 'refused')`)
  await scene.store([patientEvent('p-1', 1, { last_name: 'refused' })])
  await expect
    .poll(async () => {
      await scene.drain({ backoffMs: [1, 1] })
      return await scene.inbox()
    })
    .toEqual({ dead: 1 })
  await deadLetters('retry --all')
  await scene.drain({ backoffMs: [3_600_000] })
  expect(await scene.rows('select status, attempts from intake_raw.inbox')).toEqual([
    { status: 'pending', attempts: 1 },
  ])
})

test('of two events with one id, the one whose dead letter is retried is pending again', async () => {
  await scene.rows(`alter table intake.patients add constraint picky check (last_name <> 'refused')`)
  const event = patientEvent('p-1', 1, { last_name: 'refused', city: 'One' })
  await scene.store([event])
  await scene.store([{ ...event, data: { ...event.data, city: 'Other' } }])
  await expect
    .poll(async () => {
      await scene.drain({ backoffMs: [1, 1] })
      return await scene.inbox()
    })
    .toEqual({ dead: 2 })
  const [other] = await scene.rows<{ id: number }>(
    `select dead_letter_id::int as id from intake_raw.set_aside where position('Other'::bytea in body) > 0`,
  )
  expect((await deadLetters(`retry ${other!.id}`)).code).toBe(0)
  const stored = `select status, position('Other'::bytea in body) > 0 as is_other from intake_raw.inbox order by 1`
  expect(await scene.rows(stored)).toEqual([
    { status: 'dead', is_other: false },
    { status: 'pending', is_other: true },
  ])
})

test('an event that was loaded since is pending again, with all its tries', async () => {
  const event = patientEvent('p-1', 1)
  await scene.store([event], { receivedAt: instantOf(systemClock.now()) })
  await scene.drain()
  await scene.rows(`update intake_raw.inbox set attempts = 2, due_at = now() + interval '1 hour'`)
  expect(await scene.rows('select from intake_raw.inbox where settled_at is not null')).toHaveLength(1)
  const id = await put({ origin: `event:${event.id}`, body: JSON.stringify(event) })
  expect((await deadLetters(`retry ${id}`)).code).toBe(0)
  expect(
    await scene.rows(`select attempts, due_at, settled_at from intake_raw.inbox where status = 'pending'`),
  ).toEqual([{ attempts: 0, due_at: null, settled_at: null }])
})

test('an event that is no longer in the inbox is stored again from its dead letter', async () => {
  const body = JSON.stringify({
    ...{ id: 'e-2', timestamp: '2026-01-01T12:00:01Z', event_type: 'deleted', source: 'patient' },
    data: { id: 'p-9' },
  })
  const id = await put({
    origin: 'event:e-2',
    reason: 'the warehouse refused the event (SQLSTATE 22021)',
    body,
  })
  expect((await deadLetters(`retry ${id}`)).code).toBe(0)
  // As of the time when it was received.
  const received = `select received_at = created_at as same from intake_raw.inbox, intake_ops.dead_letters where id = $1`
  expect(await scene.rows(received, [id])).toEqual([{ same: true }])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 1 })
  expect(await scene.rows('select id, deleted from intake_raw.records')).toEqual([
    { id: 'p-9', deleted: true },
  ])
})

test('a record with an id is fetched by it; one without is read again from its stored content', async () => {
  const named = await put({
    recordId: 'p-1',
    reason: 'the service does not give the record by its id (500)',
    body: 'null',
  })
  const nameless = await put({})
  const readable = await put({
    reason: 'the warehouse refused the record (SQLSTATE 22P02)',
    body: '{"id":"p-2","first_name":"Bo"}',
  })
  const ended = await deadLetters('retry --all --json')
  expect(ended.code).toBe(4)
  expect(JSON.parse(ended.stdout).retried).toEqual([
    { id: named, outcome: 'asked' },
    { id: nameless, outcome: 'not_possible', why: expect.stringContaining('has no id') },
    { id: readable, outcome: 'loaded' },
  ])
  expect(await scene.asked()).toEqual(['patients p-1 contested'])
  expect(await scene.rows('select id, first_name from intake.patients')).toEqual([
    { id: 'p-2', first_name: 'Bo' },
  ])
  expect([await statusOf(named), await statusOf(nameless), await statusOf(readable)]).toEqual([
    'retried',
    'waiting',
    'retried',
  ])
})

test('what cannot be retried waits on, with the reason, and nothing of it is loaded', async () => {
  await scene.rows(`alter table intake.patients add constraint picky check (last_name <> 'refused')`)
  await using session = await openSession({ url: scene.url, purpose: 'test' })
  const file = { recordId: 'e', origin: 'run:1 file', reason: 'the file is malformed', body: 'a,b' }
  await storeDeadLetters(session.db, { teamId: scene.teamId, stream: 'exports', runId: null }, [file])
  await put({ body: '{"id":"p-1","last_name":"refused"}' })
  await put({ body: '{"cut' })
  const ended = await deadLetters('retry --all --json')
  expect([ended.code, JSON.parse(ended.stdout).retried]).toEqual([
    4,
    [
      { id: 1, outcome: 'not_possible', why: 'the next backfill fetches the files of exports again' },
      { id: 2, outcome: 'not_possible', why: 'the warehouse still refuses the record (SQLSTATE 23514)' },
      { id: 3, outcome: 'not_possible', why: expect.stringContaining('cannot be parsed') },
    ],
  ])
  expect(await scene.rows(`select distinct status from intake_ops.dead_letters`)).toEqual([
    { status: 'waiting' },
  ])
  expect(await scene.rows('select from intake_raw.records')).toEqual([])
})

test('a record that was fetched because of an event is fetched again, and its event stays as it is', async () => {
  await scene.store([patientEvent('p-1', 1)])
  await scene.drain()
  const [event] = await scene.rows<{ id: string }>('select event_id as id from intake_raw.inbox')
  const id = await put({ recordId: 'p-1', origin: `event:${event!.id} refetch` })
  expect((await documentOf(`retry ${id}`)).retried).toEqual([{ id, outcome: 'asked' }])
  expect(await scene.asked()).toEqual(['patients p-1 contested'])
  expect(await scene.inbox()).toEqual({ done: 1 })
})

test('a stored content that is read again never wins over a later state', async () => {
  const id = await put({
    reason: 'the warehouse refused the record',
    body: '{"id":"p-3","first_name":"Old"}',
  })
  await scene.session.client.query(
    `update intake_ops.dead_letters set created_at = '2020-01-01T00:00:00Z' where id = $1`,
    [id],
  )
  await scene.store([
    {
      ...{ id: 'e-3', timestamp: '2026-01-01T12:00:01Z', event_type: 'updated', source: 'patient' },
      data: {
        id: 'p-3',
        first_name: 'New',
        last_name: 'N',
        email: 'n',
        phone_number: '',
        provider: null,
        external_id: null,
        date_birth: null,
        sex_at_birth: null,
        address: '',
        address2: '',
        city: '',
        state: '',
        zipcode: '',
      },
    },
  ])
  await scene.drain()
  expect((await deadLetters(`retry ${id}`)).code).toBe(0)
  expect(await scene.rows('select first_name from intake.patients')).toEqual([{ first_name: 'New' }])
})

test('a discarded one no longer waits, also when it is seen again', async () => {
  const id = await put({})
  expect(await deadLetters(`discard ${id} ${id}`)).toMatchObject({ code: 0, stdout: `discarded ${id}\n` })
  expect(await put({})).toBe(0)
  expect(await scene.rows('select id::int, status, seen::int from intake_ops.dead_letters')).toEqual([
    { id, status: 'discarded', seen: 2 },
  ])
  const again = await deadLetters(`discard ${id}`)
  expect([again.code, again.stderr]).toEqual([
    1,
    expect.stringContaining(`no waiting dead letter has the id ${id}`),
  ])
})

test('one id that does not wait rejects the whole command', async () => {
  const id = await put({ recordId: 'p-1' })
  expect((await deadLetters(`retry ${id} 77`)).code).toBe(1)
  expect(await statusOf(id)).toBe('waiting')
  expect((await deadLetters('retry')).code).toBe(2)
  expect((await deadLetters(`retry ${id} --all`)).code).toBe(2)
})
