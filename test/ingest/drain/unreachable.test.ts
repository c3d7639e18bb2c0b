/** A drain whose warehouse cannot be reached: it says so once, asks again after growing pauses, and ends when it is closed. */
import pino from 'pino'
import { expect, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { openDrain } from '../../../src/ingest/drain/drain.ts'
import { unwatched } from './scene.ts'

/** Of the session that listens for notices, which is renewed by itself. */
const LISTENER_MS = 1_000

test('pauses grow to five seconds, and the reason is logged once and shown as long as it lasts', async () => {
  const pauses: number[] = []
  const said: unknown[] = []
  const logger = pino(
    { base: null, timestamp: false },
    { write: (line: string) => void said.push(JSON.parse(line)) },
  )
  let enough: () => void
  const tried = new Promise<void>((resolve) => (enough = resolve))
  const clock: Clock = {
    ...systemClock,
    async sleep(milliseconds, signal) {
      if (milliseconds === LISTENER_MS || pauses.length === 8) return systemClock.sleep(60_000, signal)
      pauses.push(milliseconds)
      if (pauses.length === 8) enough()
    },
  }
  const drain = openDrain({
    ...{ url: 'postgres://nobody@127.0.0.1:9/none', clock, logger, watch: unwatched },
    teams: [{ name: 'default', teamId: 1 }],
  })
  await tried
  expect(drain.trouble()).toBe('cannot reach the warehouse, or lost the connection to it')
  await drain.close()
  expect(pauses).toEqual([200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000])
  expect(said).toEqual(
    expect.arrayContaining([
      {
        ...{ level: 40, code: 'warehouse_unreachable' },
        msg: 'events are not drained: cannot reach the warehouse, or lost the connection to it',
      },
      {
        ...{ level: 40, channel: 'intake_inbox', code: 'warehouse_unreachable' },
        msg: 'cannot listen to the warehouse; polling',
      },
    ]),
  )
  expect(said).toHaveLength(2)
})
