/** What operators do in the console, over HTTP and a real warehouse: each action happens, and leaves one audit row. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { checkReceipt } from '../../../src/operate/receipts.ts'
import { openScene, type Scene } from '../../e2e/support/scene.ts'
import { runCommand } from '../../support/run-command.ts'
import { type Reader, startConsole, whole, wholeAnswer } from '../support/console.ts'

let scene: Scene
let page: Awaited<ReturnType<typeof startConsole>>
let operator: Reader

beforeAll(async () => {
  scene = await openScene()
  expect((await scene.backfill()).code).toBe(0)
  page = await startConsole(scene.url, { teams: readConfig(scene.env).teams })
  operator = await page.enter('operator')
})
afterAll(async () => {
  await page?.close()
  await scene?.[Symbol.asyncDispose]()
})

/** Audited actions since the last call. */
let seen = 0
async function audited() {
  const rows = await scene.query<{
    audit_id: number
    login: string
    action: string
    object: string
    detail: object
  }>(
    `select audit_id::int as audit_id, login, action, object, detail from intake_ops.audit
     where audit_id > $1 and action <> 'login' order by audit_id`,
    [seen],
  )
  seen = rows.at(-1)?.audit_id ?? seen
  return rows.map(({ login, action, object, detail }) => ({ login, action, object, detail }))
}

const plant = (reason: string, ids: readonly string[]) =>
  scene.query(
    `insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint)
     select team_id, 'patients', id, 'run:1 page:1', $1, decode(md5($1 || id), 'hex')
     from intake.teams, unnest($2::text[]) as id`,
    [reason, ids],
  )

const statuses = async (reason: string) =>
  Object.fromEntries(
    (
      await scene.query<{ record_id: string; status: string }>(
        'select record_id, status from intake_ops.dead_letters where reason = $1 order by record_id',
        [reason],
      )
    ).map(({ record_id, status }) => [record_id, status]),
  )

const unescaped = (text: string) =>
  text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')

/** The address of the preview in a page. */
const linkIn = (text: string, start: string) =>
  new RegExp(`href="(${start}[^"]*)"`).exec(text)![1]!.replaceAll('&amp;', '&')

/** The hidden fields of the form that posts to `action`. */
function fieldsOf(text: string, action: string): Record<string, string> {
  const form = new RegExp(`<form method="post" action="${action}"[\\s\\S]*?</form>`).exec(text)![0]
  return Object.fromEntries(
    [...form.matchAll(/name="([^"]+)" value="([^"]*)"/g)].map(([, name, value]) => [
      name!,
      unescaped(value!),
    ]),
  )
}

it('dead letters are grouped by reason, previewed, and retried or discarded as previewed', async () => {
  const people = await scene.query<{ id: string }>('select id from intake.patients order by id limit 3')
  const ids = people.map(({ id }) => id)
  await plant('was refused by the warehouse', ids)
  await plant('has a <b>strange</b> id', ['x-1', 'x-2'])
  const groups = await whole(operator, '/dead-letters')
  expect(groups).toContain('has a &lt;b&gt;strange&lt;/b&gt; id')
  expect(groups).not.toContain('<b>strange')

  const group = (
    await operator.get(
      linkIn(groups, '/dead-letters/group\\?team=default&amp;stream=patients&amp;reason=was'),
    )
  ).text
  for (const id of ids) expect(group).toContain(id)
  const preview = (await operator.get(linkIn(group, '/dead-letters/preview\\?action=retry'))).text
  expect(preview).toContain('<strong>3 dead letters</strong>')
  expect(preview).toContain('3: to be fetched by id, by serve or the next backfill')
  expect(await statuses('was refused by the warehouse')).toEqual(
    Object.fromEntries(ids.map((id) => [id, 'waiting'])),
  )
  expect(await audited()).toEqual([])
  // One that comes after the preview is not part of it.
  await plant('was refused by the warehouse', ['later'])
  const done = await operator.post('/dead-letters/retry', fieldsOf(preview, '/dead-letters/retry'))
  expect(done.text).toContain('3 dead letters of default/patients')
  expect(await statuses('was refused by the warehouse')).toEqual({
    ...Object.fromEntries(ids.map((id) => [id, 'retried'])),
    later: 'waiting',
  })
  const [retry, ...others] = await audited()
  expect(others).toEqual([])
  expect(retry).toMatchObject({
    login: 'operator',
    action: 'retry',
    object: 'dead letters of default/patients',
  })
  expect(retry!.detail).toMatchObject({ count: 3, reason: 'was refused by the warehouse' })
  expect((await scene.query('select id from intake_ops.refetches')).length).toBe(3)

  const strange = (
    await operator.get(
      linkIn(groups, '/dead-letters/group\\?team=default&amp;stream=patients&amp;reason=has'),
    )
  ).text
  const discard = (await operator.get(linkIn(strange, '/dead-letters/preview\\?action=discard'))).text
  expect(discard).toContain('They are closed without being loaded')
  const fields = fieldsOf(discard, '/dead-letters/discard')
  expect((await operator.post('/dead-letters/discard', fields)).text).toContain('2: discarded')
  expect(await statuses('has a <b>strange</b> id')).toEqual({ 'x-1': 'discarded', 'x-2': 'discarded' })
  expect((await operator.post('/dead-letters/discard', fields)).text).toContain(
    'None of them was waiting any more',
  )
  expect(
    (await audited()).map(({ action, detail }) => [action, (detail as { count: number }).count]),
  ).toEqual([
    ['discard', 2],
    ['discard', 0],
  ])
  await scene.query('delete from intake_ops.refetches')
})

it('a verification finds a tampered row, shows its id and columns, and repairs it', async () => {
  const [row] = await scene.query<{ id: string; city: string }>(
    `update intake.patients set city = 'canary-town' where id = (select max(id) from intake.patients) returning id, city`,
  )
  const ended = () => whole(operator, '/verify')
  const both = await Promise.all([
    operator.post('/verify', { team: 'default' }),
    operator.post('/verify', { team: 'default' }),
  ])
  expect(both.map(({ status }) => status).sort()).toEqual([303, 409])
  expect((await operator.get('/verify')).text).toContain('started by operator')
  const found = await ended()
  expect(found).toMatch(/notice bad" role="status">needs attention/)
  const differences = (await operator.get(linkIn(found, '/verify/\\d+/default/patients'))).text
  expect(differences).toMatch(/Different: 1<\/h2>/)
  expect(differences).toContain(row!.id)
  expect(differences).toMatch(/: city<\/li>/)
  expect(differences).not.toContain('canary-town')

  // A team whose service is away, and that nobody asked for.
  const [team] = readConfig(scene.env).teams
  await using console_ = await startConsole(scene.url, {
    teams: [team!, { ...team!, name: 'away', baseUrl: 'http://127.0.0.1:1' }],
  })
  const another = await console_.enter('operator')
  expect((await another.post('/verify', { team: 'default', repair: 'yes' })).status).toBe(303)
  expect(await whole(another, '/verify')).toContain('differences were repaired')
  expect((await scene.query('select from intake.patients where city = $1', ['canary-town'])).length).toBe(0)
  expect((await operator.post('/verify', { team: '*' })).status).toBe(303)
  expect(await ended()).toMatch(/notice good" role="status">equal/)
  expect((await operator.post('/verify', { team: 'nobody' })).status).toBe(400)
  expect(await audited()).toEqual([
    { login: 'operator', action: 'verify', object: 'default', detail: { repair: false } },
    { login: 'operator', action: 'verify', object: 'default', detail: { repair: true } },
    { login: 'operator', action: 'verify', object: '*', detail: { repair: false } },
  ])
})

it('a verification has a receipt: a page to print, and a signed file in which a change is detected', async () => {
  const [newest] = await scene.query<{ run_id: number; hash: string }>(
    `select run_id::int as run_id, source_hash as hash from intake_ops.verifications where stream = 'patients'
     order by run_id desc limit 1`,
  )
  const place = `/verify/${newest!.run_id}/receipt`
  expect((await whole(operator, '/verify')).match(/href="\/verify\/\d+\/receipt"/g)).toEqual([
    `href="${place}"`,
  ])
  const printed = (await operator.get(place)).text
  expect(printed).toContain('Both sides were equal.')
  expect(printed.split(newest!.hash)).toHaveLength(3)
  expect(await audited()).toEqual([])
  const file = await operator.post(place)
  expect(file.headers.get('content-disposition')).toContain(`intake-sync-verification-${newest!.run_id}.json`)
  const key = (await runCommand(['receipt', 'key'], scene.env)).stdout.trim()
  expect(printed).toContain(`<code class="long">${key}</code>`)
  expect(checkReceipt(file.text, key)).toMatchObject({
    valid: true,
    receipt: { kind: 'verification', version: '1.2.3', equal: true },
  })
  const { patients } = JSON.parse(file.text).teams.default.streams
  const [counted] = await scene.query<{ live: number }>(
    'select count(*)::int as live from intake.patients where _deleted_at is null',
  )
  const [side, hash] = [counted!.live, newest!.hash]
  expect(patients).toMatchObject({ source: side, warehouse: side, source_hash: hash, warehouse_hash: hash })
  expect(checkReceipt(file.text.replace('"equal": true', '"equal": false'), key).valid).toBe(false)
  expect(await audited()).toEqual([
    { login: 'operator', action: 'receipt', object: `verification ${newest!.run_id}`, detail: {} },
  ])
  expect((await operator.get('/verify/9999/receipt')).status).toBe(404)
  expect((await operator.post('/verify/9999/receipt')).status).toBe(404)
  expect(await audited()).toEqual([])
})

it('a record is explained by origins and names of fields, without a value', async () => {
  const { control } = scene.emulator
  const { id } = control.world().patients.at(0)!
  control.updatePatient(id, { city: 'canary-before' })
  expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
  control.updatePatient(id, { city: 'canary-after', first_name: 'canary-name' })
  expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
  const place = `/records?team=default&stream=patients&id=${id}`
  const { text, status } = await wholeAnswer(operator, place)
  expect(status).toBe(200)
  expect(text).toMatch(/changed: city, first_name/)
  expect(text).toContain('won by: ')
  expect(text).not.toContain('canary')
  expect((await operator.get('/records')).status).toBe(200)
  const unknown = await wholeAnswer(operator, '/records?team=default&stream=patients&id=%3Cb%3Enobody')
  expect([unknown.status, unknown.text.includes('has no record of patients')]).toEqual([404, true])
  expect(unknown.text).not.toContain('<b>nobody')
  const nothing = '/records?team=default&stream=nothing&id=1'
  expect((await wholeAnswer(operator, nothing)).status).toBe(404)
  expect(await audited()).toEqual([])
})

it('an event is found by its id, with what became of it and a link to its record', async () => {
  await scene.query(`
    insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id,
      body, status, settled_at)
    select team_id, '<i>e-7', '\\x0a0b', current_date, now(), 'updated', 'patient', 'x-7', '{"a":"canary-body"}', 'done', now()
    from intake.teams`)
  const place = `/events?${new URLSearchParams({ team: 'default', id: '<i>e-7' })}`
  const found = await wholeAnswer(operator, place)
  expect(found.status).toBe(200)
  expect(found.text).toContain('patient updated, content <code>0a0b</code>')
  expect(found.text).toContain('/records?team=default&amp;stream=patients&amp;id=x-7')
  expect(found.text).toContain('&lt;i&gt;e-7')
  expect(found.text).not.toMatch(/<i>|canary/)
  const unknown = await wholeAnswer(operator, '/events?team=default&id=nothing')
  expect([unknown.status, unknown.text.includes('The inbox has no event')]).toEqual([404, true])
  expect(await audited()).toEqual([])
  await scene.query(`delete from intake_raw.inbox where event_id = '<i>e-7'`)
})

it('a steward asks for one value, which is recorded before it is shown; others see that there is none to ask for', async () => {
  const { control } = scene.emulator
  const { id } = control.world().patients.at(1)!
  control.updatePatient(id, { city: '<b>canary-city</b>', first_name: 'canary-name' })
  expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
  const place = `/records?team=default&stream=patients&id=${id}`
  expect(await whole(operator, place)).not.toContain('/records/value')
  const steward = await page.enter('steward')
  const text = await whole(steward, place)
  expect(text).toContain('<option>city</option>')
  expect(text).not.toContain('canary')
  const fields = { team: 'default', stream: 'patients', id, path: 'city' }
  expect((await operator.post('/records/value', fields)).status).toBe(403)
  expect(await audited()).toEqual([])
  const value = (await steward.post('/records/value', fields)).text
  expect(value).toContain('&lt;b&gt;canary-city&lt;/b&gt;')
  expect(value).not.toContain('canary-name')
  expect(await audited()).toEqual([
    { login: 'steward', action: 'value', object: `default/patients/${id}`, detail: { field: 'city' } },
  ])
  for (const wrong of [{ path: 'nothing' }, { id: 'nobody' }, { stream: 'nothing' }, { team: 'nobody' }])
    expect((await steward.post('/records/value', { ...fields, ...wrong })).status).toBe(404)
  // A look that is not recorded shows nothing.
  await scene.query('alter table intake_ops.audit rename to audit_away')
  const unrecorded = await steward.post('/records/value', fields)
  await scene.query('alter table intake_ops.audit_away rename to audit')
  expect(unrecorded.status).toBeGreaterThanOrEqual(500)
  expect(unrecorded.text).not.toContain('canary')
  expect(await audited()).toEqual([])
})

const sha256 = (lines: readonly string[]) =>
  createHash('sha256')
    .update([...lines].sort().join(''))
    .digest('hex')

/** The line of a decision, from the form that undoes one. */
function decisionIn(restore: string): string {
  const [team, form, question, visibility] = JSON.parse(restore) as string[]
  return `${JSON.stringify([team, form, question])} ${visibility}\n`
}

it('decisions on many questions at once are made, and undone', async () => {
  const shown = async () =>
    Object.fromEntries(
      (
        await scene.query<{ key: string; shows: string }>(
          `select form_id || ' ' || question_id as key, shows from intake.questions order by 1`,
        )
      ).map(({ key, shows }) => [key, shows]),
    )
  const before = await shown()
  const [form] = await scene.query<{ id: string }>(
    `select form_id as id from intake.questions group by 1 having count(distinct shows) > 1 order by 1 limit 1`,
  )
  const keys = async (path: string) =>
    [...(await whole(operator, path)).matchAll(/name="question" value="([^"]*)"/g)].map(([, key]) =>
      key!.replaceAll('&quot;', '"'),
    )
  const own = await keys(`/questions?form=${form!.id}`)
  expect(own.length).toBe(Object.keys(before).filter((key) => key.startsWith(`${form!.id} `)).length)
  const [text] = await scene.query<{ text: string; count: number }>(
    `select question_text as text, count(*)::int as count from intake.questions
     where form_id = $1 group by 1 order by 1 limit 1`,
    [form!.id],
  )
  const query = new URLSearchParams({ form: form!.id, text: text!.text.toUpperCase() })
  expect((await keys(`/questions?${query}`)).length).toBeGreaterThanOrEqual(text!.count)
  expect((await whole(await page.enter('viewer'), '/questions')).includes('name="question"')).toBe(false)

  const send = (fields: readonly (readonly [string, string])[]) =>
    operator.post(
      '/questions/decide',
      fields.map(([name, value]) => [name, value]),
    )
  const marked = own.map((key) => ['question', key] as const)
  const done = await send([...marked, ['visibility', 'visible']])
  expect(done.text).toContain(`${own.length} questions decided on`)
  const after = await shown()
  for (const key of Object.keys(before))
    expect([key, after[key]]).toEqual([key, key.startsWith(`${form!.id} `) ? 'everything' : before[key]])
  const restore = [...done.text.matchAll(/name="restore" value="([^"]*)"/g)].map(
    ([, each]) => ['restore', each!.replaceAll('&quot;', '"')] as const,
  )
  expect((await send(restore)).text).toContain(`${own.length} questions as before`)
  expect(await shown()).toEqual(before)
  const shows = own.map((key) => before[`${form!.id} ${JSON.parse(key)[2]}`]!)
  const count = (each: string) => shows.filter((now) => now === each).length
  const rows = await audited()
  expect(rows.map(({ action, detail }) => [action, detail])).toEqual([
    [
      'classify',
      {
        ...{ count: own.length, visibility: 'visible', visible: own.length, structured: 0, hidden: 0 },
        sha256: sha256(own.map((key) => `${key} visible\n`)),
      },
    ],
    [
      'classify',
      {
        ...{ count: own.length, visibility: 'as before', visible: count('everything') },
        ...{ structured: count('structured'), hidden: count('nothing') },
        sha256: sha256(restore.map(([, each]) => decisionIn(each))),
      },
    ],
  ])
  // Each key is whole, however many there are.
  const [object = '', more] = rows[0]!.object.split(/ (?=and \d+ more$)/)
  const named = object.split(/(?<=\]) /)
  expect(named).toEqual(own.slice(0, named.length))
  expect(more ?? '').toBe(named.length < own.length ? `and ${own.length - named.length} more` : '')
  expect(object.length).toBeLessThanOrEqual(2_000)
  const unknown = JSON.stringify(['default', form!.id, 'nothing'])
  // As many as a page lists arrive.
  const many = Array.from({ length: 501 }, (_, at) =>
    JSON.stringify(['default', form!.id, `${'q'.repeat(60)}${at}`]),
  )
  const keysOf = (keys: readonly string[]) => keys.map((key) => ['question', key] as const)
  expect((await send([...keysOf(many.slice(1)), ['visibility', 'hidden']])).status).toBe(409)
  expect((await send([...keysOf(many), ['visibility', 'hidden']])).status).toBe(400)
  for (const [fields, status] of [
    [[['question', own[0]!]], 400],
    [[['visibility', 'visible']], 400],
    [
      [
        ['question', 'x'],
        ['visibility', 'visible'],
      ],
      400,
    ],
    [
      [
        ['question', own[0]!],
        ['question', unknown],
        ['visibility', 'visible'],
      ],
      409,
    ],
  ] as const)
    expect([fields, (await send(fields)).status]).toEqual([fields, status])
  expect(await shown()).toEqual(before)
  expect(await audited()).toEqual([])
})

it('questions and insights count, and show no answer', async () => {
  const wait = (path: string) => whole(operator, path)
  const [counted] = await scene.query<{ hidden: number; all: number; asked: number }>(`
    select count(*) filter (where shows = 'nothing')::int as hidden, count(*)::int as all,
      (select sum(started)::int from intake_analytics.form_completion) as asked from intake.questions`)
  expect(await wait('/questions')).toContain(`<caption>${counted!.all} questions</caption>`)
  expect(await wait('/questions?shows=nothing')).toContain(`<caption>${counted!.hidden} question`)
  const views = [...(await wait('/questions')).matchAll(/<code>(intake\w*\.\w+)<\/code>/g)].map(
    ([, name]) => name!,
  )
  expect(views.map((name) => name.split('.')[0])).toContain('intake_forms')
  const missing = 'select name from unnest($1::text[]) as own (name) where to_regclass(name) is null'
  expect(await scene.query(missing, [views])).toEqual([])
  const insights = await wait('/insights')
  expect(counted!.asked).toBeGreaterThan(10)
  const asked = [...insights.matchAll(/<th scope="row" class="wide">[^<]*<\/th><td class="n">(\d+)<\/td>/g)]
  expect(asked.reduce((sum, [, figure]) => sum + Number(figure), 0)).toBeGreaterThanOrEqual(counted!.asked)
  const [messages] = await scene.query<{ answered: number; due: number; missed: number }>(`
    select count(time_to_answer)::int as answered,
      count(*) filter (where is_sent and sent_at < now() - interval '7 days')::int as due,
      count(*) filter (where is_sent and sent_at < now() - interval '7 days' and not is_opened)::int as missed
    from intake_analytics.message_outcomes`)
  const table = (label: string) =>
    new RegExp(`aria-label="${label}"[\\s\\S]*?</table>`)
      .exec(insights)![0]
      .matchAll(/<td class="n">(\d+)<\/td>/g)
  const figures = (label: string) => [...table(label)].map(([, figure]) => Number(figure))
  expect(figures('Time to submission').reduce((sum, each) => sum + each, 0)).toBe(messages!.answered)
  expect(messages!.answered).toBeGreaterThan(0)
  const noShows = figures('No-shows by channel')
  expect(noShows.filter((_, at) => at % 2 === 0).reduce((sum, each) => sum + each, 0)).toBe(messages!.due)
  expect(noShows.filter((_, at) => at % 2 === 1).reduce((sum, each) => sum + each, 0)).toBe(messages!.missed)
  const texts = await scene.query<{ value_text: string }>(
    `select distinct value_text from intake.response_answers where choice_id is null and length(value_text) > 12 limit 20`,
  )
  expect(texts.length).toBeGreaterThan(0)
  for (const { value_text } of texts) expect(insights).not.toContain(value_text)
})

it('a verification with repair deletes no unusual number of records: these wait for a person', async () => {
  const extra = `from intake.patients where id like 'extra-%' and _deleted_at is null`
  await scene.query(`
    with planted as (
      insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
      select team_id, 'patients', 'extra-' || n, '2026-01-01', '2026-01-01', '', 'run:1 page:1', '{}'
      from intake.teams, generate_series(1, 51) n returning team_id, id, version, hash
    ) insert into intake.patients (team_id, id, _version, _origin, _hash) select team_id, id, version, 'run:1 page:1', hash from planted`)
  expect((await operator.post('/verify', { team: 'default', repair: 'yes' })).status).toBe(303)
  expect(await whole(operator, '/verify')).toMatch(/notice bad" role="status">needs attention/)
  expect(await scene.query(`select count(*)::int as extra ${extra}`)).toEqual([{ extra: 51 }])
})
