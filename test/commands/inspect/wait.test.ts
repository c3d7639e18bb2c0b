/** `wait`, and `GET /wait` of the admin server: reading after writing. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { runProgram } from '../../../src/commands/program.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { openMetrics } from '../../../src/operate/health/registry.ts'
import { type Admin, openAdmin, waitOver } from '../../../src/operate/serve/admin.ts'
import { type BoundedQueries, openBoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { startOwnTime } from '../../support/own-time.ts'
import { runCommand } from '../../support/run-command.ts'

const T = '2026-01-05T02:00:00Z'
const LATER = '2026-01-05T02:00:00.000001Z'

let warehouse: TestDatabase
let bounded: BoundedQueries
let admin: Admin

beforeAll(async () => {
  warehouse = await openWarehouse()
  bounded = openBoundedQueries(warehouse.url, 1)
  admin = await openAdmin({
    ...{ host: '127.0.0.1', port: 0, registry: openMetrics().registry },
    ...{ reasons: async () => [], refresh: async () => {}, wait: waitOver(bounded, systemClock) },
  })
  await query(warehouse.url, `insert into intake.teams (name) values ('north')`)
})
afterAll(async () => {
  await admin.close()
  await bounded.close()
  await warehouse.drop()
})
beforeEach(() =>
  query(
    warehouse.url,
    'delete from intake_raw.records; delete from intake_raw.inbox; delete from intake_ops.runs',
  ),
)

const store = (stream: string, id: string, version: string, deleted = false) =>
  query(
    warehouse.url,
    `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, deleted)
     values (1, $1, $2, $3, $3, '', 'page', $4)
     on conflict (team_id, stream, id) do update set version = excluded.version`,
    [stream, id, version, deleted],
  )

const run = (stream: string, status: string, startedAt: string, kind = 'backfill') =>
  query(
    warehouse.url,
    `with run as (
       insert into intake_ops.runs (kind, status, started_at, finished_at)
       values ($4, $2, $3::timestamptz, $3::timestamptz + interval '1 minute') returning run_id
     ) insert into intake_ops.run_streams (run_id, team_id, stream, status) select run_id, 1, $1, $2 from run`,
    [stream, status, startedAt, kind],
  )

const pend = (source: string) =>
  query(
    warehouse.url,
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, body)
     values (1, 'e', '', now()::date, now(), 'updated', $1, '')`,
    [source],
  )

const wait = async (words: readonly string[], timeout = '0') => {
  const { code, stdout, stderr } = await runCommand(['wait', ...words, '--timeout', timeout, '--json'], {
    DATABASE_URL: warehouse.url,
  })
  return { code, stderr, ...JSON.parse(stdout) }
}

describe('wait', () => {
  it('a record is as new as its state, and its tombstone is one', async () => {
    await store('responses', 'r1', '2026-01-05T01:59:59.999999Z')
    await store('responses', 'r2', T, true)
    expect(await wait(['responses', 'r1', '--since', T])).toMatchObject({ code: 1, reached: false, by: null })
    expect(await wait(['responses', 'r2', '--since', T])).toMatchObject({
      code: 0,
      reached: true,
      by: 'record',
    })
    expect(await wait(['responses', 'r2', '--since', LATER])).toMatchObject({ code: 1, reached: false })
    expect(await wait(['patients', 'r2', '--since', T])).toMatchObject({ code: 1, reached: false })
  })

  it('as text it says as of when and by what, or fails with the time that was not reached', async () => {
    await store('responses', 'r1', T)
    const text = (...words: string[]) =>
      runCommand(['wait', 'responses', 'r1', '--timeout', '0', ...words], { DATABASE_URL: warehouse.url })
    const reached = await text('--since', T)
    expect([reached.code, reached.stdout]).toEqual([
      0,
      expect.stringMatching(/^as of 2026-01-05T02:00:00\S*, by a record\n$/),
    ])
    const late = await text('--since', LATER)
    expect([late.code, late.stdout, late.stderr]).toEqual([1, '', expect.stringMatching(/^error: /)])
  })

  it('ends soon after the state was stored, and not before', async () => {
    await store('responses', 'r1', '2025-12-31T00:00:00Z')
    const waiting = wait(['responses', 'r1', '--since', T], '60')
    await sleep(300)
    expect(await Promise.race([waiting, 'still waiting'])).toBe('still waiting')
    await store('responses', 'r1', LATER)
    expect(await waiting).toMatchObject({
      code: 0,
      reached: true,
      as_of: expect.stringMatching(/^2026-01-05T02:00:00\.000001/),
    })
  })

  it('a signal ends the waiting at once', async () => {
    const stop = new AbortController()
    const { sleep } = systemClock
    const sleeping = vi.spyOn(systemClock, 'sleep').mockImplementation((milliseconds, signal) => {
      setImmediate(() => stop.abort('SIGINT'))
      return sleep(milliseconds, signal)
    })
    const output = { write: () => true }
    using time = startOwnTime()
    const code = await runProgram(['wait', 'patients', 'p1', '--since', T, '--timeout', '5m'], {
      ...{ env: { DATABASE_URL: warehouse.url }, stdout: output, stderr: output },
      ...{ signal: stop.signal, version: '' },
    }).finally(() => sleeping.mockRestore())
    expect(code).toBe(130)
    expect(time.milliseconds).toBeLessThan(60_000)
  })

  it('a stream is as new as its newest state once none of its events is pending', async () => {
    await store('patients', 'p1', LATER)
    await pend('patient')
    expect(await wait(['patients', '--since', T])).toMatchObject({ code: 1, reached: false })
    await query(warehouse.url, `update intake_raw.inbox set status = 'done'`)
    expect(await wait(['patients', '--since', T])).toMatchObject({ code: 0, by: 'record' })
    expect(await wait(['forms', '--since', T])).toMatchObject({ code: 1, reached: false })
  })

  it('neither records, runs nor events of another team count', async () => {
    await query(
      warehouse.url,
      `insert into intake.teams (team_id, name) overriding system value values (9, 'south')`,
    )
    await query(
      warehouse.url,
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
       values (9, 'patients', 'p1', $1, $1, '', 'page')`,
      [T],
    )
    await run('patients', 'succeeded', T)
    await query(warehouse.url, 'update intake_ops.run_streams set team_id = 9')
    for (const words of [['patients', 'p1'], ['patients']]) {
      const asked = [...words, '--since', T, '--team']
      expect(await wait([...asked, 'north'])).toMatchObject({ code: 1, reached: false })
      expect(await wait([...asked, 'south'])).toMatchObject({ code: 0, reached: true, by: 'run' })
    }
    await query(warehouse.url, 'delete from intake_ops.runs')
    await pend('patient')
    // The pending event is of north.
    expect(await wait(['patients', '--since', T, '--team', 'south'])).toMatchObject({ code: 0, by: 'record' })
    await query(warehouse.url, 'delete from intake_raw.records; delete from intake.teams where team_id = 9')
  })

  it('only a successful backfill that began at that time or later counts; by windows it proves no record', async () => {
    for (const stream of ['patients', 'responses']) {
      await run(stream, 'failed', LATER)
      await run(stream, 'succeeded', LATER, 'verify')
      await run(stream, 'succeeded', '2026-01-05T01:59:59Z')
      // The others of its streams are not read yet.
      await run(stream, 'succeeded', LATER)
      await query(
        warehouse.url,
        'update intake_ops.runs set finished_at = null where run_id = (select max(run_id) from intake_ops.runs)',
      )
      expect(await wait([stream, '--since', T])).toMatchObject({ code: 1, reached: false })
      await run(stream, 'succeeded', T)
      await run(stream, 'succeeded', LATER)
      expect(await wait([stream, '--since', T])).toMatchObject({
        ...{ code: 0, by: 'run', as_of: expect.stringMatching(/^2026-01-05T02:00:00\.000001/) },
      })
    }
    expect(await wait(['patients', 'anyone', '--since', T])).toMatchObject({ code: 0, by: 'run' })
    expect(await wait(['responses', 'any', '--since', T])).toMatchObject({ code: 1, reached: false })
  })

  it('--since can be a duration before now, and is now by default; an invalid value is exit code 2', async () => {
    await store('patients', 'p1', new Date(Date.now() - 60_000).toISOString())
    expect(await wait(['patients', 'p1', '--since', '2h'])).toMatchObject({ code: 0 })
    expect(await wait(['patients', 'p1', '--since', '20s'])).toMatchObject({ code: 1 })
    expect(await wait(['patients', 'p1', '--since', '1.5h'])).toMatchObject({ code: 0 })
    expect(await wait(['patients', 'p1', '--since', '1.5'])).toMatchObject({ code: 2 })
    expect(await wait(['patients', 'p1'])).toMatchObject({ code: 1 })
    expect(await wait(['patients', '--since', 'yesterday'])).toMatchObject({ code: 2 })
    expect(await wait(['people'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('packet_responses'),
    })
    expect(await wait(['patients', '--team', 'south'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('north'),
    })
  })
})

describe('GET /wait', () => {
  const get = async (parameters: Record<string, string>) => {
    const response = await fetch(`${admin.url}/wait?${new URLSearchParams(parameters)}`)
    return { status: response.status, ...((await response.json()) as object) }
  }

  it('answers 200 when it is reached, 504 when the time is over, 400 for what it cannot read', async () => {
    await store('patients', 'p1', T)
    const asked = { stream: 'patients', id: 'p1', since: T }
    expect(await get(asked)).toMatchObject({
      status: 200,
      reached: true,
      by: 'record',
      stream: 'patients',
      id: 'p1',
    })
    expect(await get({ ...asked, since: LATER, timeout: '0' })).toMatchObject({ status: 504, reached: false })
    for (const wrong of [
      { since: 'x' },
      { stream: 'people' },
      { timeout: '301' },
      { timeout: '1000' },
      { id: '' },
      { timeout: '-1' },
      { team: 'south' },
    ])
      expect(await get({ ...asked, ...wrong })).toMatchObject({ status: 400, detail: expect.any(String) })
  })

  it('more than twenty at once are refused, and those that wait are answered when the state arrives', async () => {
    const asked = { stream: 'patients', id: 'p2', since: T, timeout: '60' }
    const waiting = Array.from({ length: 21 }, () => get(asked))
    expect(await Promise.race(waiting)).toMatchObject({ status: 503 })
    await store('patients', 'p2', T)
    const statuses = (await Promise.all(waiting)).map(({ status }) => status).sort()
    expect(statuses).toEqual([...Array(20).fill(200), 503])
    expect(await get(asked)).toMatchObject({ status: 200 })
  })

  it('the place of a client that leaves is free again', async () => {
    const left = new AbortController()
    const asked = new URLSearchParams({ stream: 'forms', id: 'f', since: T, timeout: '300' })
    const waiting = Array.from({ length: 20 }, () =>
      fetch(`${admin.url}/wait?${asked}`, { signal: left.signal }),
    )
    const another = async () => (await get({ stream: 'forms', id: 'f', since: T, timeout: '0' })).status
    await expect.poll(another).toBe(503)
    left.abort()
    const ended = await Promise.allSettled(waiting)
    expect(ended.filter(({ status }) => status === 'fulfilled')).toEqual([])
    await expect.poll(another).toBe(504)
  })
})
