/** Waiting for the warehouse: how often it is looked at, and when it is given up. */
import { expect, test } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import type { Instant } from '../../../src/core/time.ts'
import { notReached, waitFor } from '../../../src/operate/health/wait.ts'
import { waitOver } from '../../../src/operate/serve/admin.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import type { BoundedQueries } from '../../../src/warehouse/bounded-queries.ts'

const SINCE = '2026-01-05T02:00:00.000000Z' as Instant
const WANTED = { team: undefined, stream: streamNamed('patients')!, id: 'p', since: SINCE }
const { signal } = new AbortController()

/** A clock that goes on while somebody sleeps, and when `pass` is called. Times in milliseconds. */
function openClock() {
  const pauses: number[] = []
  let now = 0
  const clock: Clock = {
    now: () => now * 1000,
    async sleep(milliseconds) {
      pauses.push(milliseconds)
      now += milliseconds
    },
  }
  const pass = (milliseconds: number) => {
    now += milliseconds
  }
  return { clock, pauses, pass }
}

test('looks are two tenths of a second apart, ten times as long as a look takes, and the last is at the end', async () => {
  const { clock, pauses, pass } = openClock()
  const takes = [1, 50, 100, 1]
  const look = async () => {
    pass(takes[pauses.length] ?? 0)
    return null
  }
  expect(await waitFor(WANTED, look, { timeoutMs: 2_000, clock, signal })).toEqual({
    ...{ reached: false, stream: 'patients', id: 'p', since: SINCE, by: null, as_of: null },
  })
  expect(pauses).toEqual([200, 500, 1_000, 148])
})

test('without any time one look is made', async () => {
  const { clock, pauses } = openClock()
  const found = { by: 'record', as_of: 'then' } as const
  const options = { timeoutMs: 0, clock, signal }
  expect(await waitFor(WANTED, async () => found, options)).toMatchObject({ reached: true, ...found })
  expect(await waitFor(WANTED, async () => null, options)).toMatchObject({ reached: false })
  expect(pauses).toEqual([])
})

test('a look that takes too long has found nothing; any other failure ends the wait', async () => {
  const { clock, pauses } = openClock()
  const failures = ['warehouse_slow', 'warehouse_slow', 'warehouse_unreachable'] as const
  const bounded = {
    run: async () => {
      throw new IntakeError('no', { code: failures[pauses.length]!, verdict: 'retry' })
    },
  } as unknown as BoundedQueries
  const query = { stream: 'patients', since: SINCE, timeout: 30 } as const
  await expect(waitOver(bounded, clock)(query, signal)).rejects.toMatchObject({ code: failures[2] })
  expect(pauses).toHaveLength(2)
})

test('what was not reached in time is said of a stream or of a record, without its id, and may be reached later', () => {
  const waited = { reached: false, stream: 'patients', since: SINCE, by: null, as_of: null }
  expect(notReached({ ...waited, id: null })).toMatchObject({
    ...{
      code: 'not_reached',
      verdict: 'retry',
      message: `the stream patients is not as new as ${SINCE} yet`,
    },
  })
  expect(notReached({ ...waited, id: 'p' }).message).toBe(
    `the record of patients is not as new as ${SINCE} yet`,
  )
})
