/** Housekeeping of serve: every hour it creates the days of the inbox and removes what is old, and survives any failure. */
import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Instant } from '../../../src/core/time.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { openHousekeeping } from '../../../src/operate/serve/parts.ts'
import { openScene } from '../../ingest/drain/scene.ts'

function openLog() {
  const said: { readonly msg: string; readonly level: number; readonly time: number }[] = []
  return { said, logger: pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) }) }
}

test('each hour, days of the inbox are created, and what is old is removed', async () => {
  await using scene = await openScene()
  const { url, teamId, rows } = scene
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const place = { teamId, stream: 'patients', runId: null } as const
  const age = async () => {
    const deadLetter = { recordId: 'p', origin: 'run:1 page:1', reason: 'no', body: 'x' }
    await storeDeadLetters(scene.session.db, place, [deadLetter])
    await rows(
      `update intake_ops.dead_letters set status = 'resolved', settled_at = now() - interval '12 days'
       where settled_at is null`,
    )
    await rows(
      `insert into intake_ops.events_received (team_id, hour, events, last_at)
       values ($1, now() - interval '61 days', 1, now())`,
      [teamId],
    )
    await rows(
      `insert into intake_ops.delivery_checks (team_id, config_id, event_id) values ($1, 'c', 'not listed any more')`,
      [teamId],
    )
    // Of a configuration that is ours; older than the days of the inbox.
    await rows(
      `insert into intake.webhook_deliveries (team_id, id, event_id, webhook_config_id, created_at, _version, _origin, status)
       values ($1, gen_random_uuid()::text, gen_random_uuid()::text, 'own', now() - interval '12 days', now(), 'test', 'x')`,
      [teamId],
    )
    await rows(
      `insert into intake_ops.runs (kind, status, started_at, finished_at)
       select 'replay', 'succeeded', at, at from (select now() - interval '501 days') run (at)`,
    )
    await rows(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, superseded_at)
       values ($1, 'forms', 'f', now(), now(), false, '\\x00', 'test', now() - interval '401 days')`,
      [teamId],
    )
  }
  const left = async () => {
    const tables = ['intake_raw.set_aside', 'intake_ops.events_received', 'intake_ops.delivery_checks']
    const counts = [...tables, 'intake_raw.record_history', 'intake_ops.runs'].map(
      (table) => `select '${table}' as left from ${table}`,
    )
    return (await rows<{ left: string }>(counts.join(' union all '))).map((row) => row.left)
  }
  const retention = { historyDays: 400, runDays: 500 }
  await rows(
    `insert into intake_ops.webhook_secrets (team_id, config_id, secret, created_at)
     values ($1, 'own', '\\x00', now() - interval '99 days')`,
    [teamId],
  )
  await age()
  expect(await left()).toHaveLength(6)
  const { said, logger } = openLog()
  {
    await using _housekeeping = await openHousekeeping({ url, inboxDays: 11, retention, logger })
    expect(await left()).toEqual([])
    const nothing = { deadLetters: 0, ticks: 0, deliveries: 0 }
    expect(said.map(({ time: _, ...line }) => line)).toEqual([
      { level: 30, msg: 'old bodies of dead letters removed', bodies: 1 },
      { level: 30, msg: 'expired rows removed', history: 1, runs: 1, ...nothing },
    ])
    const today = `select to_regclass('intake_raw.inbox_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')) is not null as known`
    expect(await rows(today)).toEqual([{ known: true }])
    await age()
    vi.advanceTimersByTime(3_599_000)
    expect(await left()).toHaveLength(6)
    vi.advanceTimersByTime(1_000)
    await expect.poll(left).toEqual([])
  }
  expect(vi.getTimerCount()).toBe(0)
})

test('days of the inbox that were dropped, and events that were moved to theirs, are in the log, and no day that was only made', async () => {
  await using scene = await openScene()
  const { url, rows } = scene
  const { said, logger } = openLog()
  const keep = async () => {
    await using _ = await openHousekeeping({ url, inboxDays: 30, logger })
    return said.splice(0).map(({ level, time, ...line }) => line)
  }
  const settled = `update intake_raw.inbox set status = 'done', settled_at = now() - $1::interval`
  expect(await keep()).toEqual([])
  await scene.store(['old'], { receivedAt: '2020-01-01T12:00:00Z' as Instant })
  await rows(settled, ['29 days 23 hours'])
  const msg = 'old days of the inbox dropped'
  expect(await keep()).toEqual([{ msg, created: 1, dropped: 0, moved: 1 }])
  expect(await keep()).toEqual([])
  await rows(settled, ['30 days 1 hour'])
  expect(await keep()).toEqual([{ msg, created: 0, dropped: 1, moved: 0 }])
  expect(await scene.inbox()).toEqual({})
})

test('a warehouse that is away is reported, and delays no other part', async () => {
  const { said, logger } = openLog()
  const url = 'postgres://nobody@127.0.0.1:1/none'
  await using _housekeeping = await openHousekeeping({ url, inboxDays: 30, logger })
  expect(said).toMatchObject([
    { code: 'warehouse_unreachable', msg: 'housekeeping failed; retried in an hour' },
  ])
})
