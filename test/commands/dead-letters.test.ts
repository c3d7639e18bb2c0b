/** `dead-letters`: told without a value, shown whole when asked for, and given another try by the road they came. */
import { stripVTControlCharacters } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { openScene, type Scene } from '../ingest/drain/scene.ts'
import { runCommand } from '../support/run-command.ts'

const CANARY = 'Kanarienvogel7351'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})
afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const letters = (words: string, columns?: number) =>
  runCommand(
    ['dead-letters', ...words.split(' ')],
    { DATABASE_URL: scene.url },
    columns === undefined ? {} : { columns },
  )
const documentOf = async (words: string) => JSON.parse((await letters(`${words} --json`)).stdout)
const statusOf = async (id: number) =>
  (await scene.rows<{ status: string }>('select status from intake_ops.dead_letters where id = $1', [id]))[0]
    ?.status

async function put(letter: Partial<Parameters<typeof storeDeadLetters>[2][number]>): Promise<number> {
  const whole = {
    recordId: null,
    origin: 'run:1 page:2',
    reason: 'has no id',
    body: `{"name":"${CANARY}"}`,
    ...letter,
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

test('a list tells the reason and never the content; on a terminal of 80 columns it fits', async () => {
  await put({})
  await put({ recordId: 'p-1', reason: `cannot be read: ${'for a long reason '.repeat(9)}` })
  const list = await letters('list')
  expect(list.code).toBe(0)
  expect(list.stdout).toContain('has no id')
  expect(list.stdout).toContain('for a long reason '.repeat(9).trim())
  expect(list.output).not.toContain(CANARY)
  const shown = stripVTControlCharacters((await letters('list', 80)).stdout)
  for (const line of shown.split('\n')) expect([...line].length).toBeLessThanOrEqual(80)
  expect(await documentOf('list --limit 1')).toMatchObject({
    total: 2,
    dead_letters: [
      { id: 2, team: 'default', stream: 'patients', record_id: 'p-1', status: 'waiting', seen: 1 },
    ],
  })
  expect(await documentOf('list --status discarded')).toEqual({ total: 0, dead_letters: [] })
})

test('one is shown with its origin, and with its content only when that is asked for', async () => {
  const id = await put({})
  const plain = await letters(`show ${id}`)
  expect(plain.stdout).toContain('run:1 page:2')
  expect(plain.output).not.toContain(CANARY)
  expect((await letters(`show ${id} --json`)).output).not.toContain(CANARY)
  expect((await letters(`show ${id} --show-values`)).stdout).toContain(CANARY)
  expect((await documentOf(`show ${id} --show-values`)).content).toBe(`{"name":"${CANARY}"}`)
  const none = await letters('show 99')
  expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('there is no dead letter 99')])
  expect((await letters('show ninety')).code).toBe(2)
})

test('one is shown whole within 80 columns, however long its ids are', async () => {
  const recordId = `p-${'0123456789'.repeat(18)}`
  const origin = `run:1 window:${'2026-01-01T00:00:00Z..'.repeat(6)} page:2`
  const id = await put({ recordId, origin, reason: `cannot be read: ${'for a long reason '.repeat(9)}` })
  const shown = stripVTControlCharacters((await letters(`show ${id}`, 80)).stdout)
  for (const line of shown.split('\n')) expect([...line].length).toBeLessThanOrEqual(80)
  expect(shown.replaceAll(/\s/g, '')).toContain(recordId)
  expect(shown.replaceAll(/\s/g, '')).toContain(origin.replaceAll(' ', ''))
  const plain = (await letters(`show ${id}`)).stdout
  expect(plain).toContain(`\nrecord       ${recordId}\n`)
})

test('an event goes back to the inbox, and is loaded when it can be read now', async () => {
  const event = {
    ...{ id: 'e-1', timestamp: '2026-01-01T12:00:01Z', event_type: 'deleted', source: 'patient' },
    data: {},
  }
  await scene.store([event])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 1 })
  const ended = await letters('retry 1')
  expect([ended.code, ended.stdout]).toEqual([0, expect.stringContaining('back in the inbox')])
  expect(await scene.inbox()).toEqual({ pending: 1 })
  expect(await statusOf(1)).toBe('retried')
  // It is no better than it was: a new dead letter.
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 1 })
  expect(await scene.rows('select id::int, status from intake_ops.dead_letters order by id')).toEqual([
    { id: 1, status: 'retried' },
    { id: 2, status: 'waiting' },
  ])
})

test('an event that the inbox no longer holds is stored again from what was set aside', async () => {
  const body = JSON.stringify({
    ...{ id: 'e-2', timestamp: '2026-01-01T12:00:01Z', event_type: 'deleted', source: 'patient' },
    data: { id: 'p-9' },
  })
  const id = await put({
    origin: 'event:e-2',
    reason: 'the warehouse refused the event (SQLSTATE 22021)',
    body,
  })
  expect((await letters(`retry ${id}`)).code).toBe(0)
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 1 })
  expect(await scene.rows('select id, deleted from intake_raw.records')).toEqual([
    { id: 'p-9', deleted: true },
  ])
})

test('a record that has an id is asked for by it; one that has none is read again where it lies', async () => {
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
  const ended = await letters('retry --all --json')
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

test('what was read again never outdoes what the service said since', async () => {
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
  expect((await letters(`retry ${id}`)).code).toBe(0)
  expect(await scene.rows('select first_name from intake.patients')).toEqual([{ first_name: 'New' }])
})

test('what was discarded waits no more, also when it is met again', async () => {
  const id = await put({})
  expect((await letters(`discard ${id}`)).code).toBe(0)
  expect(await put({})).toBe(0)
  expect(await scene.rows('select id::int, status, seen::int from intake_ops.dead_letters')).toEqual([
    { id, status: 'discarded', seen: 2 },
  ])
  const again = await letters(`discard ${id}`)
  expect([again.code, again.stderr]).toEqual([
    1,
    expect.stringContaining(`no waiting dead letter has the id ${id}`),
  ])
})

test('one number that does not wait stops all that were named with it', async () => {
  const id = await put({ recordId: 'p-1' })
  expect((await letters(`retry ${id} 77`)).code).toBe(1)
  expect(await statusOf(id)).toBe('waiting')
  expect((await letters('retry')).code).toBe(2)
  expect((await letters(`retry ${id} --all`)).code).toBe(2)
})
