/** Round by round, what a drain does with its connections and batches, and in which order. */
import { beforeEach, expect, test, vi } from 'vitest'
import { openSession } from '../../../src/warehouse/connect.ts'
import { batchOf, lost, openRounds } from './rounds.ts'

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
beforeEach(() => {
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
