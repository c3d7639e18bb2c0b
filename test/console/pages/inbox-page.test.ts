/** The page of events: what the receiving process says, sampled while somebody looks; what waits; the days that are stored. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { type Reader, startConsole, whole } from '../support/console.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
let page: Awaited<ReturnType<typeof startConsole>>
let viewer: Reader
let later = 0
let asked = 0
let received: number | null = 100

const server = createServer((_request, response) => {
  asked += 1
  if (received === null) return void response.writeHead(500).end('intake_events_received_total 7\n')
  response.end(
    `intake_events_received_total{team="north"} ${received}\nintake_events_drained_total{outcome="done"} ${received / 2}\n` +
      'intake_events_rejected_total{team="",reason="signature"} 3\n',
  )
})

beforeAll(async () => {
  warehouse = await openWarehouse()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const clock = { ...systemClock, now: () => systemClock.now() + later }
  page = await startConsole(warehouse.url, { clock, metricsUrl: `http://127.0.0.1:${port}/metrics` })
  viewer = await page.enter('viewer')
  await query(
    warehouse.url,
    `select intake_raw.add_inbox_day(current_date - n, 100) from generate_series(0, 1) n;
     insert into intake.teams (name) values ('north'), ('south'), ('gone');
     insert into intake_ops.removed_teams (team_id, name, data) values (3, 'gone', 'kept');
     insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, body, status)
       select team, 'e' || n, decode(md5(n::text), 'hex'), current_date, now() - age::interval, source, '{}', status
       from (values (1, 1, '302 s', 'patient', 'pending'), (1, 2, '5 s', 'form', 'pending'), (1, 3, '5 s', 'nothing', 'pending'),
         (1, 4, '9 h', 'patient', 'done'), (2, 5, '290 s', 'patient', 'pending'), (3, 6, '9 h', 'patient', 'pending'))
         as event (team, n, age, source, status);
     insert into intake_ops.refetches (team_id, stream, id, reason, origin)
       select 2, 'patients', 'p' || n, 'partial', 'event:e' from generate_series(1, 2) n`,
  )
})
afterAll(async () => {
  await page?.close()
  await warehouse?.drop()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const samples = async () =>
  (JSON.parse((await viewer.get('/inbox/samples')).text) as { samples: Record<string, number>[] }).samples
const texts = (html: string) => html.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')

it('the receiver is asked at most every two seconds; each sample has the rates since the one before', async () => {
  await Promise.all([viewer.get('/inbox'), viewer.get('/inbox'), samples()])
  expect([asked, await samples()]).toEqual([1, []])
  received = 130
  later += 10_000_000
  const [sample, ...others] = await samples()
  expect([asked, others.length]).toEqual([2, 0])
  expect(sample!.stored).toBeCloseTo(3, 0)
  expect(sample!.drained).toBeCloseTo(1.5, 0)
  expect(texts(await whole(viewer, '/inbox'))).toMatch(
    /stored since its start 130 drained since its start 65 events a second [23]\.\d .*unknown signature 3 /,
  )
  // While it does not answer, there is no sample; then rates begin again.
  received = null
  later += 10_000_000
  expect(texts(await whole(viewer, '/inbox'))).toContain('No process that receives events answers')
  received = 10
  later += 10_000_000
  expect(await samples()).toHaveLength(1)
  later += 10_000_000
  expect(await samples()).toHaveLength(2)
})

it('what waits is shown by team and stream, and marked when it is older than five minutes', async () => {
  const html = await whole(viewer, '/inbox')
  const waiting = /aria-label="Waiting events"[\s\S]*?<\/table>/.exec(html)![0]
  const rows = [...waiting.matchAll(/<tr><th scope="row">([\s\S]*?)<\/tr>/g)].map(([, row]) => row!)
  expect(rows.map((row) => texts(row).trim())).toEqual([
    expect.stringMatching(/^north 3 5 min .*0$/),
    expect.stringMatching(/^south 1 5 min patients 1 2$/),
  ])
  for (const each of ['patients 1', 'forms 1', 'other 1']) expect(rows[0]).toContain(each)
  expect(rows.map((row) => /class="mark (\w+)"/.exec(row)![1])).toEqual(['bad', 'good'])
  const days = /aria-label="Days of the inbox"[\s\S]*?<\/table>/.exec(html)![0]
  // Postgres has no estimate yet.
  expect(texts(days)).toMatch(/ other days – \d+\.\d /)
  const names = [...days.matchAll(/<th scope="row">([^<]*)</g)].map(([, day]) => day!)
  expect(names[0]).toBe('other days')
  expect(names.slice(1)).toEqual(names.slice(1).toSorted().toReversed())
  expect(names.slice(1)).toContain(new Date().toISOString().slice(0, 10))
})
