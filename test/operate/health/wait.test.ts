/** Waiting for the warehouse: how often it is looked at, what shows that it is new enough, and when it is given up. */
import { expect, test } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import type { Instant } from '../../../src/core/time.ts'
import { notReached, readAsOf, type Wanted, waitFor } from '../../../src/operate/health/wait.ts'
import { waitOver } from '../../../src/operate/serve/admin.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import type { BoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

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

test('only a backfill that began since then, and has read the stream and ended, shows that it is as new', async () => {
  await using warehouse = await openWarehouse()
  const { url } = warehouse
  await using session = await openSession({ url, purpose: 'test' })
  await query(url, `insert into intake.teams (name) values ('north'), ('south')`)
  const asOf = (over: Partial<Wanted> = {}) =>
    readAsOf(session.db, { ...WANTED, team: 'north', ...over }).then(
      (found) => found && [found.by, found.as_of],
    )
  const run = (kind: string, began: string, ended: string | null, status: string, stream: string, team = 1) =>
    query(
      url,
      `with run as (
         insert into intake_ops.runs (kind, status, started_at, finished_at) values ($1, 'succeeded', $2, $3) returning run_id
       )
       insert into intake_ops.run_streams (run_id, team_id, stream, status) select run_id, $6, $5, $4 from run`,
      [kind, began, ended, status, stream, team],
    )
  const [since, later, before] = [
    '2026-01-05T02:00:00+00',
    '2026-01-05T03:00:00+00',
    '2026-01-05T01:59:59+00',
  ]
  await run('verify', later, later, 'succeeded', 'patients')
  await run('backfill', later, null, 'succeeded', 'patients')
  await run('backfill', later, later, 'needs_attention', 'patients')
  await run('backfill', later, later, 'succeeded', 'patients', 2)
  await run('backfill', later, later, 'succeeded', 'forms')
  await run('backfill', before, later, 'succeeded', 'patients')
  expect([await asOf(), await asOf({ id: null })]).toEqual([null, null])
  await run('backfill', since, later, 'succeeded', 'patients')
  expect([await asOf(), await asOf({ id: null })]).toEqual([
    ['run', '2026-01-05T02:00:00+00:00'],
    ['run', '2026-01-05T02:00:00+00:00'],
  ])
  await run('backfill', later, later, 'succeeded', 'patients')
  expect(await asOf()).toEqual(['run', '2026-01-05T03:00:00+00:00'])
  // A stream that is read by windows is as new as its run, its records are not.
  const windows = streamNamed('responses')!
  await run('backfill', later, later, 'succeeded', 'responses')
  expect(await asOf({ stream: windows })).toBeNull()
  expect(await asOf({ stream: windows, id: null })).toEqual(['run', '2026-01-05T03:00:00+00:00'])
})

test('a state of that time shows it, of a stream only while none of its events waits', async () => {
  await using warehouse = await openWarehouse()
  const { url } = warehouse
  await using session = await openSession({ url, purpose: 'test' })
  await query(url, `insert into intake.teams (name) values ('north'), ('south')`)
  const asOf = (id: string | null, team = 'north') =>
    readAsOf(session.db, { ...WANTED, team, id }).then((found) => found && [found.by, found.as_of])
  const store = (team: number, stream: string, id: string, version: string) =>
    query(
      url,
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
       values ($1, $2, $3, $4, now(), true, '\\x00', 'test')`,
      [team, stream, id, version],
    )
  await store(1, 'patients', 'p', '2026-01-05T01:59:59Z')
  await store(1, 'forms', 'p', '2026-01-05T03:00:00Z')
  await store(2, 'patients', 'q', '2026-01-05T03:00:00Z')
  expect([await asOf('p'), await asOf(null), await asOf('q'), await asOf('q', 'south')]).toEqual([
    ...[null, null, null],
    ['record', '2026-01-05T03:00:00+00:00'],
  ])
  await query(url, `update intake_raw.records set version = '2026-01-05T02:00:00Z' where team_id = 1`)
  const exactly = ['record', '2026-01-05T02:00:00+00:00']
  expect([await asOf('p'), await asOf(null)]).toEqual([exactly, exactly])
  const wait = (team: number, source: string, status: string) =>
    query(
      url,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, source, status)
       values ($1, gen_random_uuid()::text, '\\x00', current_date, now(), '{}', $2, $3)`,
      [team, source, status],
    )
  await wait(2, 'patient', 'pending')
  await wait(1, 'form', 'pending')
  await wait(1, 'patient', 'done')
  expect(await asOf(null)).toEqual(exactly)
  await wait(1, 'patient', 'pending')
  expect([await asOf('p'), await asOf(null)]).toEqual([exactly, null])
})
