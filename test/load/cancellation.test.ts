/** The signal of a run: it aborts when somebody canceled this run, or when its process is stopped, and names which. */
import { getEventListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { isCanceled, openCancellation, whyStopped } from '../../src/load/cancel-run.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

let database: TestDatabase
let session: Session
let [runId, otherId] = ['', '']

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'run' })
})
afterAll(async () => {
  await session.close()
  await database.drop()
})
beforeEach(async () => {
  const rows = await rowsOf<{ id: string }>(
    session,
    `insert into intake_ops.runs (kind, options) values ('verify', '{}'), ('verify', '{}') returning run_id as id`,
  )
  ;[runId, otherId] = [rows[0]!.id, rows[1]!.id]
})

const open = (signal = new AbortController().signal) =>
  openCancellation(session, { url: database.url, runId, signal })
const note = (run = runId) =>
  rowsOf(session, `update intake_ops.runs set canceled_by = 'ann' where run_id = $1`, [run])
const notify = (run = runId) => rowsOf(session, `select pg_notify('intake_canceled_runs', $1)`, [run])
/** The session of a look at the run has ended. */
const looked = () =>
  expect
    .poll(() =>
      rowsOf(
        session,
        `select from pg_stat_activity where datname = current_database() and application_name = 'intake-sync canceled run'`,
      ),
    )
    .toEqual([])

test('a run that was canceled before it listened is stopped at once', async () => {
  await note()
  using cancellation = await open()
  expect([cancellation.signal.aborted, isCanceled(cancellation.signal)]).toEqual([true, true])
  expect(whyStopped(cancellation.signal)).toBe('canceled by database user ann, with intake-sync runs cancel')
})

test('a run is stopped by a notice once it is canceled, and not by that of another run', async () => {
  using cancellation = await open()
  await note(otherId)
  // The other one first: no look at this run is on its way that would see what comes later.
  for (const run of [otherId, runId]) await notify(run)
  await looked()
  expect(cancellation.signal.aborted).toBe(false)
  await note()
  await notify()
  await expect.poll(() => cancellation.signal.aborted).toBe(true)
  expect(whyStopped(cancellation.signal)).toBe('canceled by database user ann, with intake-sync runs cancel')
})

test('a process that is stopped stops its run, which nobody canceled then', async () => {
  const stopping = new AbortController()
  using cancellation = await open(stopping.signal)
  expect(cancellation.signal.aborted).toBe(false)
  // Why its process stops is not for the note.
  stopping.abort(new Error('SIGTERM'))
  expect([cancellation.signal.aborted, isCanceled(cancellation.signal)]).toEqual([true, false])
  expect(whyStopped(cancellation.signal)).toBe('stopped by a signal')
  // Also one that was stopped before.
  using late = await open(stopping.signal)
  expect([late.signal.aborted, isCanceled(late.signal)]).toEqual([true, false])
})

test('a notice on another channel, or before anybody canceled, is no reason to look at the run or to stop it', async () => {
  using cancellation = await open()
  const looks: unknown[] = []
  await rowsOf(session, 'listen another')
  session.client.on('notification', ({ channel, payload }) => looks.push([channel, payload]))
  await note()
  await rowsOf(session, `select pg_notify('another', $1), pg_notify('intake_canceled_runs', $2)`, [
    runId,
    otherId,
  ])
  await expect.poll(() => looks).toHaveLength(2)
  await looked()
  expect(cancellation.signal.aborted).toBe(false)
  session.client.removeAllListeners('notification')
})

test('once a run has ended, nothing stops it any more, and nothing of it is left', async () => {
  const before = session.client.listenerCount('notification')
  const stopping = new AbortController()
  const cancellation = await open(stopping.signal)
  cancellation[Symbol.dispose]()
  expect(getEventListeners(stopping.signal, 'abort')).toEqual([])
  expect(session.client.listenerCount('notification')).toBe(before)
  await note()
  await notify()
  stopping.abort()
  await sleep(0)
  await looked()
  expect(cancellation.signal.aborted).toBe(false)
})
