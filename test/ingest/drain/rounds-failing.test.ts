/** What a drain does about a failure, what it says of it, and what it announces. */
import { beforeEach, expect, test, vi } from 'vitest'
import { takeDue } from '../../../src/ingest/drain/inbox-rows.ts'
import { write } from '../../../src/ingest/drain/load-events.ts'
import { settleOneByOne } from '../../../src/ingest/drain/settle-one-by-one.ts'
import { reportDefect } from '../../../src/warehouse/defects.ts'
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
beforeEach(() => {
  scene = openRounds()
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

test('events that our own code fails to read are taken again and tried one by one, and it goes on in the same connection', async () => {
  scene.found = [TYPE, batchOf(3)]
  vi.mocked(takeDue).mockResolvedValue([row(1), row(2)] as never)
  vi.mocked(settleOneByOne).mockImplementation(async (_, loading, rows) => {
    scene.steps.push(`one by one ${rows.map(({ seq }) => seq)}`)
    expect(loading.backoffMs).toEqual([1_000, 10_000, 60_000])
    const [first, second] = rows as never[]
    return { loaded: [], postponed: [first!], deadLettered: [second!] }
  })
  const drain = scene.open()
  expect(await scene.done()).toEqual([
    ...['take s1', 'search in s1', 'rollback', 'begin', 'rollback', 'one by one 1,2'],
    ...['search in s1', 'write 3 in s1'],
  ])
  const [, error, defect] = vi.mocked(reportDefect).mock.lastCall!
  expect([error, defect.teamIds, defect.consequence]).toEqual([TYPE, [1, 1], '2 events are tried one by one'])
  expect(scene.said).toEqual([
    { level: 40, msg: 'an event could not be loaded; tried again', seq: '1', team_id: 1, attempts: 2 },
    { level: 50, msg: 'an event could not be loaded; dead-lettered', seq: '2', team_id: 1, attempts: 2 },
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
