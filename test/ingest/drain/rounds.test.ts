/** Round by round, what a drain does with its connections and batches, in which order, and what about failures. */
import { beforeEach, expect, test, vi } from 'vitest'
import { takeDue } from '../../../src/ingest/drain/inbox-rows.ts'
import { write } from '../../../src/ingest/drain/load-events.ts'
import { settleOneByOne } from '../../../src/ingest/drain/settle-one-by-one.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openDefectReports } from '../../../src/warehouse/defects.ts'
import { batchOf, loadedOf, lost, openRounds, row } from './rounds.ts'

vi.mock('../../../src/ingest/drain/sessions.ts')
vi.mock('../../../src/ingest/drain/load-events.ts')
vi.mock('../../../src/ingest/drain/search-start.ts')
vi.mock('../../../src/warehouse/defects.ts')
vi.mock('../../../src/warehouse/connect.ts')
vi.mock('../../../src/ingest/drain/inbox-rows.ts', async (load) => ({
  ...(await load<typeof import('../../../src/ingest/drain/inbox-rows.ts')>()),
  takeDue: vi.fn(),
  isAnyDue: async () => false,
}))
vi.mock('../../../src/ingest/drain/settle-one-by-one.ts', async (load) => ({
  ...(await load<typeof import('../../../src/ingest/drain/settle-one-by-one.ts')>()),
  settleOneByOne: vi.fn(),
}))

let scene: ReturnType<typeof openRounds>
const reported = vi.fn()
beforeEach(() => {
  reported.mockClear()
  vi.mocked(openDefectReports).mockClear().mockReturnValue(reported)
  scene = openRounds()
})

test('one batch is read while the one before is written; they are written in the order in which they were taken', async () => {
  scene.found = [batchOf(1, 2), batchOf(3, 4), batchOf(5, 6), batchOf(7)]
  const drain = scene.open()
  expect(await scene.done()).toEqual([
    'take s1',
    'search in s1',
    'take s2',
    'write 1,2 in s1',
    'search in s2',
  ])
  scene.ends.get('1,2')!()
  expect(await scene.done()).toEqual(['release s1', 'write 3,4 in s2', 'take s1', 'search in s1'])
  // A batch that fails stops none after it, and its connection is not used again.
  scene.ends.get('3,4')!(lost())
  expect(await scene.done()).toEqual(['discard s2', 'forget where to search', 'write 5,6 in s1'])
  expect(scene.sleeping()).toEqual([200])
  scene.ends.get('5,6')!()
  expect(await scene.done()).toEqual(['release s1'])
  expect(await scene.pass()).toEqual(['take s1', 'search in s1', 'write 7 in s1'])
  // The last one was not full: what arrives while it is written is taken together.
  expect(scene.sleeping()).toEqual([])
  scene.ends.get('7')!()
  expect(await scene.done()).toEqual(['release s1'])
  expect(scene.sleeping()).toEqual([700])
  expect(await scene.pass()).toEqual(['take s1', 'search in s1', 'release s1'])
  await drain.close()
})

test('looking for events in vain needs one connection, at each poll, and a notice meanwhile is not lost', async () => {
  scene.found = [null, 'wait']
  const drain = scene.open()
  const once = ['take s1', 'search in s1', 'release s1']
  expect(await scene.done()).toEqual(once)
  expect(scene.sleeping()).toEqual([700])
  expect(await scene.pass()).toEqual(once.slice(0, 2))
  scene.notice()
  scene.looked(null)
  expect(await scene.done()).toEqual(['release s1', ...once])
  drain.wake()
  expect(await scene.done()).toEqual(once)
  expect(scene.listener).toEqual({ url: 'postgres://here', channel: 'intake_inbox' })
  await drain.close()
})

test('a drain that waits for events is closed at once, and leaves a batch that hangs after fifteen seconds', async () => {
  const idle = scene.open({ pollMs: 3_600_000 })
  await scene.done()
  await idle.close()
  expect([await scene.done(), scene.sleeping()]).toEqual([['close listener', 'close sessions'], []])
  scene.found = [batchOf(1)]
  const drain = scene.open()
  await scene.done()
  let isClosed = false
  const closing = drain.close().then(() => {
    isClosed = true
  })
  expect([await scene.done(), isClosed, scene.sleeping()]).toEqual([['close listener'], false, [15_000]])
  expect([await scene.pass(), isClosed]).toEqual([['close sessions'], true])
  await closing
  scene.ends.get('1')!(lost())
})

test('who waits until nothing is due waits for the batch that is written, and is not kept by a drain that is closed', async () => {
  vi.mocked(openSession).mockResolvedValue({
    [Symbol.asyncDispose]: async () => void scene.steps.push('end idle'),
  } as never)
  scene.found = [batchOf(1)]
  const drain = scene.open()
  await scene.done()
  let isIdle = false
  const idle = drain.idle().then(() => {
    isIdle = true
  })
  await scene.pass()
  expect(isIdle).toBe(false)
  scene.ends.get('1')!()
  await scene.done()
  await scene.pass()
  await scene.pass()
  expect(isIdle).toBe(true)
  await idle
  scene.found = [batchOf(2)]
  scene.notice()
  await scene.done()
  const kept = drain.idle()
  const closing = drain.close()
  scene.ends.get('2')!()
  await Promise.all([kept, closing])
})

const TYPE = new TypeError('cannot read Kanarienvogel')

test('failures are reported once with their code, then how many there were; each ends its connection', async () => {
  scene.found = [lost(), lost(), null, lost()]
  const drain = scene.open()
  expect(await scene.done()).toEqual(['take s1', 'search in s1', 'discard s1', 'forget where to search'])
  expect(scene.sleeping()).toEqual([200])
  const why = 'cannot reach the warehouse, or lost the connection to it'
  expect(drain.trouble()).toBe(why)
  expect(await scene.pass()).toEqual(['take s2', 'search in s2', 'discard s2', 'forget where to search'])
  expect(scene.sleeping()).toEqual([400])
  expect(await scene.pass()).toEqual(['take s3', 'search in s3', 'release s3'])
  expect(drain.trouble()).toBeNull()
  const line = { level: 40, msg: `events are not drained: ${why}`, code: 'warehouse_unreachable' }
  expect(scene.said).toEqual([line, { level: 30, msg: 'draining events again', failures: 2 }])
  expect(await scene.pass()).toEqual(['take s3', 'search in s3', 'discard s3', 'forget where to search'])
  expect([scene.said.at(-1), scene.sleeping()]).toEqual([line, [200]])
  // Closed within a pause, it neither waits for the end of it nor connects again.
  const closing = drain.close()
  expect(await scene.done()).toEqual(['close listener', 'close sessions'])
  await closing
  expect(scene.sleeping()).toEqual([])
})

test('a batch is trouble after thirty seconds, of the oldest one, also while it is searched for', async () => {
  scene.found = ['wait', 'wait', null]
  const drain = scene.open()
  await scene.done()
  scene.now += 30_000_000
  expect(drain.trouble()).toBeNull()
  scene.now += 1
  expect(drain.trouble()).toBe('a batch of events is under way for 30 s')
  scene.looked(batchOf(1, 2))
  await scene.done()
  expect(drain.trouble()).toBeNull()
  scene.now += 20_000_000
  scene.ends.get('1,2')!()
  await scene.done()
  scene.now += 12_000_000
  expect(drain.trouble()).toBe('a batch of events is under way for 32 s')
  scene.looked(batchOf(3, 4))
  await scene.done()
  scene.now += 31_000_000
  expect(drain.trouble()).toBe('a batch of events is under way for 31 s')
  scene.ends.get('3,4')!()
  await scene.done()
  expect(drain.trouble()).toBeNull()
  await drain.close()
})

const FAILED = { team_id: 1, attempts: 2 }
test('events that our own code fails to read are taken again and tried one by one, and it goes on in the same connection', async () => {
  scene.found = [TYPE, batchOf(3)]
  vi.mocked(takeDue).mockResolvedValue([row(1), row(2), row(5), row(6)] as never)
  vi.mocked(settleOneByOne).mockImplementation(async (session, loading, rows, onFailure) => {
    scene.steps.push(`one by one ${rows.map(({ seq }) => seq)}`)
    expect(loading.backoffMs).toEqual([1_000, 10_000, 60_000])
    await onFailure(new RangeError('of a part'), rows.slice(2, 3))
    expect(reported.mock.lastCall![0]).toBe(session)
    const [first, second, third, fourth] = rows as never[]
    const loaded = [0, 2].map((refetches) => ({ rows: [], dead: new Set(), settled: [], refetches }))
    return { loaded: loaded as never, postponed: [first!, third!], deadLettered: [second!, fourth!] }
  })
  let announced = 0
  const drain = scene.open({ onRefetchRequested: () => (announced += 1) })
  expect(await scene.done()).toEqual([
    ...['take s1', 'search in s1', 'rollback', 'begin', 'rollback', 'one by one 1,2,5,6'],
    ...['search in s1', 'write 3 in s1'],
  ])
  expect(announced).toBe(1)
  const consequence = 'the 4 events of a batch are tried one by one'
  expect(reported.mock.calls.map(([, ...rest]) => rest)).toEqual([
    [TYPE, { teamIds: [1, 1, 1, 1], consequence }],
    [new RangeError('of a part'), { teamIds: [1], consequence }],
  ])
  // Each batch reports anew.
  expect(openDefectReports).toHaveBeenCalledTimes(1)
  expect(scene.said).toEqual([
    ...['1', '5'].map((seq) => ({
      ...FAILED,
      level: 40,
      msg: 'an event could not be loaded; tried again',
      seq,
    })),
    ...['2', '6'].map((seq) => ({
      ...FAILED,
      level: 50,
      msg: 'an event could not be loaded; dead-lettered',
      seq,
    })),
  ])
  scene.ends.get('3')!(TYPE)
  vi.mocked(settleOneByOne).mockRejectedValue(lost())
  expect(await scene.done()).toEqual(['rollback', 'discard s1', 'forget where to search'])
  expect(drain.trouble()).not.toBeNull()
  await drain.close()
})

test('a fetch is announced for each batch that needs one; each team has the version of the service that it requests', async () => {
  let announced = 0
  scene.found = [batchOf(1), batchOf(2)]
  vi.mocked(write).mockImplementation(async (_, __, batch) =>
    loadedOf(batch.rows, batch.rows[0]!.seq === '1' ? 1 : 0),
  )
  const teams = [
    { name: 'north', teamId: 1 },
    { name: 'south', teamId: 2, apiVersion: 'v1' },
  ]
  const drain = scene.open({ teams, onRefetchRequested: () => (announced += 1) })
  await scene.done()
  expect(announced).toBe(1)
  await scene.pass()
  expect(announced).toBe(1)
  expect([1, 2, 3].map(scene.loading.apiVersionOf)).toEqual(['v2.1', 'v1', 'v2.1'])
  await drain.close()
})
