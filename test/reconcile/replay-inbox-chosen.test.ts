/** Which stored events a replay of the inbox takes up: those since a time, to the microsecond, of any day; and what becomes of them. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parseInstant } from '../../src/core/time.ts'
import { openScene, patientEvent, type Scene } from '../ingest/drain/scene.ts'
import { runCommand } from '../support/run-command.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})
afterEach(() => scene[Symbol.asyncDispose]())

async function replay(since: string, ...words: string[]) {
  const variables = { DATABASE_URL: scene.url, LOG_LEVEL: 'error' }
  const ended = await runCommand(['replay', '--inbox', '--json', '--since', since, ...words], variables)
  return JSON.parse(ended.stdout)
}

it('events around midnight are those since the time that is named, in whatever zone, and not the day', async () => {
  const times = [
    ...['2026-01-01T22:59:59.999999Z', '2026-01-01T23:00:00Z', '2026-01-01T23:59:59.999999Z'],
    ...[
      '2026-01-02T00:00:00Z',
      '2026-01-02T00:00:00.000001Z',
      '2026-01-02T23:59:59Z',
      '2026-01-03T00:00:00Z',
    ],
  ]
  for (const [at, time] of times.entries())
    await scene.store([patientEvent(`p${at}`, at)], { receivedAt: parseInstant(time)! })
  await scene.drain()
  const counts = []
  for (const since of [
    ...['2026-01-02T00:00:00+01:00', '2026-01-02', '2026-01-01T19:00:00.000001-05:00'],
    ...['2026-01-03', '2026-01-04'],
  ])
    counts.push([since, (await replay(since)).inbox.events])
  expect(counts).toEqual([
    ['2026-01-02T00:00:00+01:00', 6],
    ['2026-01-02', 4],
    ['2026-01-01T19:00:00.000001-05:00', 3],
    ['2026-01-03', 1],
    ['2026-01-04', 0],
  ])
})

it('of an id that came with several bodies, on one day or several, only those since then are drained again', async () => {
  const twice = (city: string) => [{ ...patientEvent('a', 1, { city }), id: 'one id' }]
  const at = (time: string) => ({ receivedAt: parseInstant(time)! })
  await scene.store(twice('First'), at('2026-01-01T10:00:00Z'))
  await scene.store(twice('Second'), at('2026-01-02T10:00:00Z'))
  await scene.store(twice('Third'), at('2026-01-02T12:00:00Z'))
  // As on a redelivery in the days after.
  await scene.rows(`
    insert into intake_raw.inbox select (jsonb_populate_record(own, '{"received_on": "2026-01-03", "received_at": "2026-01-03T10:00:00Z"}')).*
    from intake_raw.inbox own where received_at = '2026-01-02T12:00:00Z'`)
  await scene.drain()
  await scene.rows(
    `update intake_raw.inbox set settled_at = '2020-01-01', seq = case when received_on = '2026-01-03' then seq + 99 else seq end`,
  )
  const again = async () => {
    const settled = await scene.rows<{ again: boolean }>(
      `select settled_at > '2021-01-01' as again from intake_raw.inbox order by received_at`,
    )
    return settled.map((each) => each.again)
  }
  expect((await replay('2026-01-03')).inbox.events).toBe(1)
  expect(await again()).toEqual([false, false, false, true])
  expect((await replay('2026-01-02T11:00:00Z')).inbox.events).toBe(2)
  expect(await again()).toEqual([false, false, true, true])
  expect((await replay('2026-01-02')).inbox.events).toBe(3)
  expect(await again()).toEqual([false, true, true, true])
})

it('only the dead letter of an event that is taken up is settled; the run says how many events are left', async () => {
  await scene.store(['no event at all', patientEvent('a', 2)], {
    receivedAt: parseInstant('2026-01-02T10:00:00Z')!,
  })
  await scene.store(['nor this'], { receivedAt: parseInstant('2026-01-01T10:00:00Z')! })
  await scene.drain()
  // Waiting ones of an event that is done, of a fetch by id, and of a run.
  await scene.rows(`
    insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
    select team_id, 'patients', origin, origin, 'planted' from intake_raw.inbox,
      lateral unnest(array['event:' || event_id, 'event:' || event_id || ' refetch', 'run:1']) origin where status = 'done'`)
  const ended = await replay('2026-01-02')
  expect(ended).toMatchObject({
    status: 'needs_attention',
    inbox: { events: 2, done: 1, dead: 1, waiting: 0 },
  })
  expect(await scene.rows('select status, error from intake_ops.runs')).toEqual([
    { status: 'needs_attention', error: '1 event(s) dead-lettered, 0 to be retried' },
  ])
  const left = await scene.rows(
    `select status, reason = 'planted' as planted, settled_at is not null as settled, count(*)::int as count
     from intake_ops.dead_letters group by 1, 2, 3 order by 1, 2`,
  )
  expect(left).toEqual([
    { status: 'retried', planted: false, settled: true, count: 1 },
    // That of the earlier event, and the new one of that which failed again.
    { status: 'waiting', planted: false, settled: false, count: 2 },
    { status: 'waiting', planted: true, settled: false, count: 3 },
  ])
  expect(await replay('2026-01-02', '--streams', 'patients')).toMatchObject({
    ...{ status: 'succeeded', inbox: { events: 1, done: 1, dead: 0, waiting: 0 } },
  })
  const [run] = await scene.rows('select error, options from intake_ops.runs order by run_id desc limit 1')
  expect(run).toMatchObject({ error: null, options: { inbox: true, streams: ['patients'] } })
})
