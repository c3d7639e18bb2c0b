/** Pages of a warehouse with several teams whose records, events and runs have the same ids: each shows only its own. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { plain, type Reader, startConsole, tableIn, whole, wholeAnswer } from '../support/console.ts'
import { PLANTED } from '../support/several-teams.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
let page: Awaited<ReturnType<typeof startConsole>>
let steward: Reader

const rows = <Row extends object>(text: string, values?: unknown[]) => query<Row>(warehouse.url, text, values)

beforeAll(async () => {
  warehouse = await openWarehouse()
  await rows(PLANTED)
  page = await startConsole(warehouse.url)
  steward = await page.enter('steward')
})
afterAll(async () => {
  await page?.close()
  await warehouse?.drop()
})

it('the overview judges each team by its own runs, verifications, events and dead letters', async () => {
  const html = await whole(steward, '/')
  const cards = [...html.matchAll(/<section [\s\S]*?<\/section>/g)].map(([card]) => card)
  expect(cards.map((card) => /<h2[^>]*>(\w+)</.exec(card)![1])).toEqual([...['gone', 'north', 'south']])
  cards.shift()
  const [north, south] = cards.map(plain)
  // Runs of the verification of two days ago no longer count, nor what was repaired.
  expect(north).toContain('proved equal to the service 3 d ago, 2 streams')
  expect(south).toContain('504 differences in 2 streams')
  expect(north).toMatch(/7 streams without a successful backfill/)
  expect(cards[0]).toContain('events per day for 30 days: 7 in all, at most 5 a day')
  expect(cards[1]).toContain('events per day for 30 days: 7 in all, at most 7 a day')
  // 1 to 32 documents, and what was changed and deleted of patients; nothing of the verification.
  expect(cards[0]).toContain('rows changed by runs per day for 30 days: 538 in all, at most 538 a day')
  expect(cards[1]).toContain('rows changed by runs per day for 30 days: 12 in all')
  expect([north, south].map((card) => /pending events (\d+)/.exec(card!)![1])).toEqual(['1', '1'])
  expect(north).toContain('1 event in the inbox, the oldest for 5 minutes')
  expect(south).not.toContain('in the inbox, the oldest')
  expect(cards[0]).toMatch(/<a href="\/inbox">1 event in the inbox/)
  expect(cards[0]).toMatch(/<a href="\/dead-letters">patients: 5 dead letters waiting/)
  expect(cards[0]).toMatch(/<a href="\/dead-letters">forms, webhook_deliveries: 1 dead letter waiting/)
})

it('the streams of a team show its last thirty backfills, its problems and drift, the newest first', async () => {
  const streams = await whole(steward, '/streams')
  const documents = tableIn(streams, 'Streams of north').find((row) => row.startsWith('documents'))
  expect(documents).toMatch(/^documents 0 0 – 25 h ago succeeded 10 0 0 0 0$/)
  expect(streams).toContain('aria-label="changes of the last 30 runs"')
  const patients = (team: string) =>
    tableIn(streams, `Streams of ${team}`).find((row) => row.startsWith('patients'))
  expect(patients('north')).toMatch(/ succeeded 8 1 5 6 1$/)
  // A run without a duration has no rate.
  expect(patients('south')).toMatch(/ needs attention – 0 1 4 1$/)
  const one = await steward.get('/streams/north/patients')
  expect(tableIn(one.text, 'Last runs').map((row) => row.replace(/ \d{4}-\S+ \S+ UTC/, ''))).toEqual([
    '35 succeeded 40 0 5 s',
    '32 succeeded 100 10 10 s',
  ])
  expect(tableIn(one.text, 'Problems').map((row) => row.split(' ')[0])).toEqual(['c', 'b', 'a'])
  expect(tableIn(one.text, 'Drift').map((row) => row.split(' ').slice(0, 3))).toEqual([
    ['nick', 'string', '4'],
  ])
  expect(plain((await steward.get('/streams/south/documents')).text)).toContain('No run has read this stream')
  const long = (await steward.get('/streams/north/documents')).text
  expect(tableIn(long, 'Last runs').map((row) => Number(row.split(' ')[0]))).toEqual(
    Array.from({ length: 30 }, (_, at) => 32 - at),
  )
})

it('a run is compared with the last one of its kind that read anything, stream by stream and team by team', async () => {
  const run = await whole(steward, '/runs/35')
  expect(plain(run)).toContain('compared with run 32')
  expect(tableIn(run, 'Streams of the run')).toEqual([
    'north patients succeeded 3 0 40 100 0 9 0 0 0 5 s nothing to write: all 40 records were stored with the same content',
    'south patients failed 1 0 5 30 5 3 0 0 0 2 s refused; it failed; the note has the reason',
  ])
  expect(plain(run)).toContain(
    'full false since 2026-01-02 03:04 UTC teams north, south window {"days":2}'.replaceAll('"', '&quot;'),
  )
  expect(plain(await whole(steward, '/runs/37'))).toContain('compared with run 35')
  expect(plain(await whole(steward, '/runs/33'))).not.toContain('compared with')
  expect(plain(await whole(steward, '/runs/36'))).toMatch(/ away .*No stream was read/)
  for (const wrong of ['/runs/38', '/runs/x', '/runs/1234567890', '/runs/0'])
    expect([wrong, (await steward.get(wrong)).status]).toEqual([wrong, 404])
  const list = tableIn(await whole(steward, '/runs'), 'Runs, newest first').map((row) =>
    row.replace(/\d{4}-\S+ \S+ UTC/, 'then'),
  )
  expect(list.slice(0, 3)).toEqual([
    expect.stringMatching(/^37 backfill then \S+ \S+ failed 1 0 12 4 0$/),
    expect.stringMatching(/^36 backfill then \S+ \S+ failed 0 0 0 0 0$/),
    expect.stringMatching(/^35 backfill then \S+ \S+ needs attention 4 0 45 5 0$/),
  ])
})

it('the newest verification of each stream of each team is shown, and the ids of its differences', async () => {
  const html = await whole(steward, '/verify')
  expect(tableIn(html, 'Verifications').map((row) => row.replace(/ 20\d\d-.*/, ''))).toEqual([
    'north forms repaired 900 400 0 0 0 0',
    'north patients repaired 900 400 0 0 3 3',
    'south forms differs 900 400 2 0 0 0',
    'south patients differs 900 400 501 0 1 0',
  ])
  expect([...html.matchAll(/href="\/verify\/(\d+)\/receipt"/g)].map(([, run]) => run)).toEqual(['34', '33'])
  const ids = async (place: string) =>
    [...(await steward.get(place)).text.matchAll(/<li><a [^>]*><code class="long">([^<]*)</g)].map(
      ([, id]) => id,
    )
  expect(await ids('/verify/33/south/forms')).toEqual(['s-1', 's-2'])
  expect(await ids('/verify/33/north/patients')).toEqual(['old'])
  expect(await ids('/verify/34/north/patients')).toEqual([])
  expect(await ids('/verify/34/south/patients')).toEqual(
    Array.from({ length: 500 }, (_, at) => `m-${at + 1}`),
  )
  expect((await steward.get('/verify/34/south/patients')).text).toContain('The first 500;')
  const first = (name: string) => Array.from({ length: 500 }, (_, at) => `${name}-${at + 1}`)
  expect(await ids('/verify/33/south/documents')).toEqual([...first('e'), ...first('d')])
  for (const wrong of ['/verify/33/north/forms', '/verify/32/south/forms', '/verify/x/south/forms'])
    expect([wrong, (await steward.get(wrong)).status]).toEqual([wrong, 404])
})

it('dead letters are grouped by team, stream and reason, and an action reaches its group only', async () => {
  const groups = tableIn(await whole(steward, '/dead-letters'), 'Dead letters by reason')
  expect(groups[1]).toBe('north patients odd 4 8 2026-01-02 03:04 UTC 2026-01-04 05:06 UTC')
  expect(groups.map((row) => row.replace(/ 20\d\d-.*/, ''))).toEqual([
    'south forms many 1,001 1,001',
    'north patients odd 4 8',
    '9 inbox (no reason) 1 1',
    'north forms odd 1 1',
    'north patients other 1 1',
    'north webhook_deliveries odd 1 1',
    'south patients odd 1 1',
  ])
  const group = { team: 'north', stream: 'patients', reason: 'odd' }
  const of = (path: string, from: Record<string, string>) =>
    steward.get(`${path}?${new URLSearchParams(from)}`)
  expect(
    tableIn((await of('/dead-letters/group', group)).text, 'Dead letters').map((row) =>
      row.replace(/ 20\d\d-.*/, ''),
    ),
  ).toEqual(['1 p run:1 2', '2 p event:e-1 1', '3 no id event:e-2 refetch 4', '4 q event:e-3 refetch 1'])
  const ways = async (from: Record<string, string>) =>
    [...(await of('/dead-letters/preview', { action: 'retry', ...from })).text.matchAll(/<li>(.*?)<\/li>/g)]
      .map(([, way]) => way!)
      .filter((way) => /^\d/.test(way))
  expect(await ways(group)).toEqual([
    '2: to be fetched by id, by serve or the next backfill',
    '1: back in the inbox, to be drained by serve',
    '1: loaded from the stored body',
  ])
  expect(await ways({ ...group, stream: 'webhook_deliveries' })).toEqual(['1: loaded from the stored body'])
  const many = { team: 'south', stream: 'forms', reason: 'many' }
  expect(plain((await of('/dead-letters/group', many)).text)).toContain('The oldest 200 of 1,001')
  const preview = (await of('/dead-letters/preview', { action: 'discard', ...many })).text
  expect(plain(preview)).toContain('There are 1,001; the oldest 1,000 are done at once')
  expect(preview).toContain('name="upTo" value="1010"')
  expect((await of('/dead-letters/preview', { action: 'burn', ...many })).status).toBe(400)
  expect((await of('/dead-letters/group', { team: 'north', stream: 'patients' })).status).toBe(400)
  expect((await steward.post('/dead-letters/discard', { ...group, upTo: 'x' })).status).toBe(400)
  expect((await steward.post('/dead-letters/discard', { ...group, upTo: '3' })).text).toContain(
    '3: discarded',
  )
  const changed = `select id::int as id from intake_ops.dead_letters where status = 'discarded' order by 1`
  expect(await rows(changed)).toEqual([1, 2, 3, 5].map((id) => ({ id })))
  // A retry that is not possible stays, and is counted with its reason.
  const retried = plain(
    (await steward.post('/dead-letters/retry', { ...group, stream: 'webhook_deliveries', upTo: '99' })).text,
  )
  expect(retried).toMatch(/1: not possible: /)
  // Every other page is as new as the action: of what it shows, one part may have changed alone.
  await rows(`
    insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different, repaired,
      missing_ids, extra_ids, different_ids) values (34, 3, 'forms', true, 1, 1, 0, 0, 0, 0, '{}', '{}', '[]')`)
  expect((await steward.post('/dead-letters/discard', { ...group, upTo: '1' })).status).toBe(200)
  expect(tableIn(await whole(steward, '/verify'), 'Verifications')[0]).toMatch(/^gone forms equal 1 1 /)
})

it('an event, a record and its values are those of the team that was asked for; a removed team has none', async () => {
  const event = async (team: string) =>
    plain(await whole(steward, `/events?${new URLSearchParams({ team, id: 'e' })}`))
  expect(await event('north')).toMatch(/content 0a done since .*content 0b pending , 2 failed attempts/)
  expect(await event('south')).toMatch(/form updated, content 0c pending/)
  expect(await event('south')).not.toMatch(/content 0[abd]/)
  await rows(`insert into intake_ops.removed_teams (team_id, name, data) values (3, 'gone', 'kept')`)
  const record = (team: string) =>
    wholeAnswer(steward, `/records?${new URLSearchParams({ team, stream: 'patients', id: 'p' })}`)
  const [{ hash }] = (await rows<{ hash: string }>(`select left(md5('south'), 12) as hash`)) as [
    { hash: string },
  ]
  const south = await record('south')
  expect(south.text).toContain(`content <code>${hash}</code>`)
  expect(
    [...south.text.matchAll(/<select name="path">(.*?)<\/select>/g)].map(([, paths]) => plain(paths!)),
  ).toEqual(['city none tags[0] tags[1].name'])
  expect(plain(south.text)).toMatch(
    /Waits to be fetched by id \(partial\), due \S+ \S+ UTC, 3 attempts so far/,
  )
  expect((await record('north')).text).not.toContain('Waits to be fetched')
  expect((await record('gone')).status).toBe(404)
  await using session = await openSession({ url: warehouse.url, purpose: 'tests' })
  await noteErased(session.db, await hashesOf(session.db, 1), 'erased', [
    { stream: 'patients', id: 'erased' },
  ])
  const erased = (team: string) =>
    wholeAnswer(steward, `/records?${new URLSearchParams({ team, stream: 'patients', id: 'erased' })}`)
  const answers = [await erased('north'), await erased('south')]
  expect(answers.map(({ status, text }) => [status, text.includes('was erased')])).toEqual([
    [404, true],
    [404, false],
  ])
  expect(south.text).not.toContain('<option>gone')
  const value = async (path: string) =>
    /<pre class="value">(.*?)<\/pre>/.exec(
      (await steward.post('/records/value', { team: 'south', stream: 'patients', id: 'p', path })).text,
    )?.[1]
  expect([
    await value('city'),
    await value('none'),
    await value('tags[1].name'),
    await value('tags'),
  ]).toEqual([...['city of south', 'null', '7', undefined]])
  // Of a record with more, a thousand fields; of a value, ten thousand characters.
  await rows(`
    insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
    select 2, 'patients', 'large', '2026-01-01', '2026-01-01', '', 'run:1', json_build_object('a', repeat('x', 10001),
      'list', (select json_agg(n) from generate_series(1, 1100) n))`)
  const large = { team: 'south', stream: 'patients', id: 'large' }
  const fields = await whole(steward, `/records?${new URLSearchParams(large)}`)
  expect(fields.match(/<option>(?:a|list\[\d+\])</g)).toHaveLength(1_000)
  expect((await steward.post('/records/value', { ...large, path: 'a' })).text).toContain(
    `<pre class="value">${'x'.repeat(10_000)}</pre>`,
  )
  expect(await value('city')).toBe('city of south')
  const audit = tableIn(await whole(steward, '/audit'), 'Actions')
  expect([audit.length, audit[0]]).toEqual([
    200,
    expect.stringMatching(/ value south\/patients\/p field city$/),
  ])
})

it('of many reasons for dead letters the two hundred with most are listed', async () => {
  await rows(`
    insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint)
    select 1, 'documents', 'd', 'x', 'reason ' || reason, 'limit ' || reason || ' ' || again
    from generate_series(1, 230) as reason, generate_series(1, case when reason <= 200 then 2 else 10 end) as again`)
  const listed = async () => tableIn(await whole(steward, '/dead-letters'), 'Dead letters by reason')
  await expect.poll(async () => (await listed()).join()).toContain('reason 230')
  const shown = (await listed()).map((row) => / ([\d,]+) [\d,]+ \d{4}-/.exec(row)![1])
  expect(shown).toHaveLength(200)
  expect(shown.slice(0, 31)).toEqual(['1,001', ...Array(30).fill('10')])
  expect(shown.slice(31)).not.toContain('1')
})
