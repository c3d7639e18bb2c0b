/** Lists of the console with more rows than they have room for: how many are shown, which, and in which order. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { plain, type Reader, startConsole, tableIn, whole } from '../support/console.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
let page: Awaited<ReturnType<typeof startConsole>>
let operator: Reader

const rows = <Row extends object>(text: string) => query<Row>(warehouse.url, text)
const upTo = (count: number, name: (n: number) => string) =>
  Array.from({ length: count }, (_, at) => name(at + 1))

/** Runs 1 to 101: the first is a replay, the next a backfill, verifications follow, and the last two are backfills. */
const PLANTED = `
  insert into intake.teams (name) values ('north');
  insert into intake_ops.runs (kind, status, options, finished_at)
    select case when n = 1 then 'replay' when n in (2, 52, 101) then 'backfill' else 'verify' end, 'succeeded', '{}', now()
    from generate_series(1, 101) n;
  insert into intake_ops.run_streams (run_id, team_id, stream, status, fetched)
    select run_id, 1, 'forms', 'succeeded', run_id from intake_ops.runs;
  insert into intake_ops.problems (team_id, stream, path, reason, count, last_seen)
    select 1, 'forms', 'p' || n, 'odd', n, now() - n * interval '1 minute' from generate_series(1, 201) n;
  insert into intake_ops.drift (team_id, stream, path, type, count, last_seen)
    select 1, 'forms', 'd' || n, 'string', n, now() - n * interval '1 minute' from generate_series(1, 201) n;
  insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body, attempts)
    select 1, 'e', decode(lpad(to_hex(n), 8, '0'), 'hex'), current_date, now() - n * interval '1 second', 'updated', 'patient', 'p', '{}', n
    from generate_series(1, 101) n;
  insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint)
    select 1, 'forms', 'f' || n, 'run:1', 'many', 'many ' || n from generate_series(1, 1003) n;
  insert into intake.forms (team_id, id, name, _version, _origin)
    select 1, 'f' || n, case when n > 1 then 'Form ' || n end, now(), 'test' from generate_series(1, 32) n;
  insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
    select 1, 'f' || n, 1, 'q', 'number', 'Question ' || n from generate_series(1, 32) n;
  insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, created_at, updated_at, submitted_at, _version, _origin)
    select 1, 'r' || n || '-' || again, 'p', 'f' || n, true, now(), now(), now(), now(), 'test'
    from generate_series(1, 32) n, generate_series(1, n) again;
  insert into intake.response_answers (team_id, response_id, position, value_position, question_id, value_text)
    select 1, id, 1, 1, 'q', case when id like '%-1' then '1' else '' end from intake.responses;
  insert into intake_raw.wide_views (team_id, kind, subject_id, view_name, signature)
    select 1, 'form', 'f' || n, 'v' || lpad(n::text, 4, '0'), '' from generate_series(1, 501) n`

beforeAll(async () => {
  warehouse = await openWarehouse()
  await rows(PLANTED)
  page = await startConsole(warehouse.url)
  operator = await page.enter('operator')
})
afterAll(async () => {
  await page?.close()
  await warehouse?.drop()
})

const firsts = (html: string, label: string, at = 0) => tableIn(html, label).map((row) => row.split(' ')[at])

it('of problems and drift of a stream the two hundred that were seen last, of all drift fifty, of wide views five hundred', async () => {
  const stream = await whole(operator, '/streams/north/forms')
  expect(firsts(stream, 'Problems')).toEqual(upTo(200, (n) => `p${n}`))
  expect(firsts(stream, 'Drift')).toEqual(upTo(200, (n) => `d${n}`))
  const questions = await whole(operator, '/questions')
  expect(firsts(questions, 'Drift', 1)).toEqual(upTo(50, (n) => `d${n}`))
  expect(firsts(questions, 'Wide views', 1)).toEqual(
    upTo(500, (n) => `intake.v${String(n).padStart(4, '0')}`),
  )
})

it('of the bodies that came with one id the first hundred, in the order in which they came', async () => {
  const html = await whole(operator, '/events?team=north&id=e')
  const attempts = [...html.matchAll(/, (\d+) failed attempt/g)].map(([, count]) => Number(count))
  expect(attempts).toEqual(Array.from({ length: 100 }, (_, at) => at + 1))
})

it('of the runs the newest fifty; a run is compared with one of its kind among the fifty up to it', async () => {
  const listed = firsts(await whole(operator, '/runs'), 'Runs, newest first').map(Number)
  expect(listed).toEqual(Array.from({ length: 50 }, (_, at) => 101 - at))
  const compared = async (run: number) =>
    /compared with run (\d+)/.exec(plain(await whole(operator, `/runs/${run}`)))?.[1]
  expect([await compared(101), await compared(51), await compared(52)]).toEqual(['52', '50', undefined])
})

it('of forms the thirty that were asked most often, and of questions the thirty that were left out most often', async () => {
  const html = await whole(operator, '/insights')
  const most = Array.from({ length: 30 }, (_, at) => 32 - at)
  expect(tableIn(html, 'Completion by form')).toEqual(most.map((n) => `Form ${n} ${n} ${n} 0 100 % 0.0`))
  const share = (n: number) => Math.round(((n - 1) / n) * 100)
  expect(tableIn(html, 'Questions left out')).toEqual(
    most.map((n) => `Form ${n} Question ${n} ${n} ${share(n)} %`),
  )
})

it('each page has its own title', async () => {
  const of = (more: object = {}) =>
    new URLSearchParams({ team: 'north', stream: 'forms', reason: 'many', ...more })
  const titles: Record<string, string | undefined> = {}
  for (const path of [
    ...[`/dead-letters/group?${of()}`, `/dead-letters/preview?${of({ action: 'retry' })}`],
    ...[`/dead-letters/preview?${of({ action: 'discard' })}`, '/streams/tables', '/streams/north/forms'],
    ...['/runs/52', '/events?team=north&id=e', '/records', '/verify', '/audit', '/login', '/nowhere'],
  ])
    titles[path.replace(/\?team.*?(?=&action|$)/, '')] = /<title>(.*) – intake-sync<\/title>/.exec(
      (await operator.get(path)).text,
    )?.[1]
  expect(titles).toEqual({
    ...{
      '/dead-letters/group': 'Dead letters of one reason',
      '/dead-letters/preview&action=retry': 'Preview: retry',
    },
    ...{ '/dead-letters/preview&action=discard': 'Preview: discard', '/streams/tables': 'Tables' },
    ...{
      '/streams/north/forms': 'forms of north',
      '/runs/52': 'Run 52',
      '/events': 'Event',
      '/records': 'Record',
    },
    ...{ '/verify': 'Verify', '/audit': 'Audit', '/login': 'Log in', '/nowhere': 'Not found' },
  })
})

it('of dead letters of one reason the oldest thousand are done at once, up to the newest that was counted', async () => {
  const group = { team: 'north', stream: 'forms', reason: 'many' }
  const [{ first, last }] = (await rows<{ first: number; last: number }>(
    'select min(id)::int as first, max(id)::int as last from intake_ops.dead_letters',
  )) as [{ first: number; last: number }]
  const html = await whole(operator, `/dead-letters/group?${new URLSearchParams(group)}`)
  expect(firsts(html, 'Dead letters').map(Number)).toEqual(Array.from({ length: 200 }, (_, at) => first + at))
  const post = async (action: string, newest: number) =>
    plain((await operator.post(`/dead-letters/${action}`, { ...group, upTo: String(newest) })).text)
  expect(await post('discard', last - 1)).toContain('1,000 dead letters of north/forms: 1,000: discarded')
  const waiting = `select id::int as id from intake_ops.dead_letters where status = 'waiting' order by id`
  const left = [last - 2, last - 1, last].map((id) => ({ id }))
  expect(await rows(waiting)).toEqual(left)
  expect(await post('discard', last - 1)).toContain('2 dead letters of north/forms: 2: discarded')
  expect(await post('retry', last - 1)).toContain('None of them was waiting any more.')
  expect(await rows(waiting)).toEqual(left.slice(2))
  const audited = `select login, action, object, detail from intake_ops.audit where action <> 'login' order by audit_id`
  const action = (name: string, count: number) => ({
    ...{ login: 'operator', action: name, object: 'dead letters of north/forms' },
    detail: { count, reason: 'many', up_to: last - 1 },
  })
  expect(await rows(audited)).toEqual([action('discard', 1_000), action('discard', 2), action('retry', 0)])
})
