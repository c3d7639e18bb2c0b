/** Housekeeping of serve: every hour it creates the days of the inbox and removes what is old, and survives any failure. */
import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { openHousekeeping } from '../../../src/operate/serve/parts.ts'
import { openScene } from '../../ingest/drain/scene.ts'

function openLog() {
  const said: { readonly msg: string }[] = []
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
      `update intake_ops.dead_letters set status = 'resolved', settled_at = now() - interval '31 days'
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
    await rows(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, superseded_at)
       values ($1, 'forms', 'f', now(), now(), false, '\\x00', 'test', now() - interval '401 days')`,
      [teamId],
    )
  }
  const left = async () => {
    const tables = ['intake_raw.set_aside', 'intake_ops.events_received', 'intake_ops.delivery_checks']
    const counts = [...tables, 'intake_raw.record_history'].map(
      (table) => `select '${table}' as left from ${table}`,
    )
    return (await rows<{ left: string }>(counts.join(' union all '))).map((row) => row.left)
  }
  const retention = { historyDays: 400, runDays: null }
  await age()
  expect(await left()).toHaveLength(4)
  const { said, logger } = openLog()
  {
    await using _housekeeping = await openHousekeeping({ url, inboxDays: 30, retention, logger })
    expect(await left()).toEqual([])
    expect(said.map(({ msg }) => msg)).toEqual(['old bodies of dead letters removed', 'expired rows removed'])
    const today = `select to_regclass('intake_raw.inbox_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')) is not null as known`
    expect(await rows(today)).toEqual([{ known: true }])
    await age()
    vi.advanceTimersByTime(3_599_000)
    expect(await left()).toHaveLength(4)
    vi.advanceTimersByTime(1_000)
    await expect.poll(left).toEqual([])
  }
  expect(vi.getTimerCount()).toBe(0)
})

test('a warehouse that is away is reported, and delays no other part', async () => {
  const { said, logger } = openLog()
  const url = 'postgres://nobody@127.0.0.1:1/none'
  await using _housekeeping = await openHousekeeping({ url, inboxDays: 30, logger })
  expect(said).toMatchObject([
    { code: 'warehouse_unreachable', msg: 'housekeeping failed; retried in an hour' },
  ])
})
