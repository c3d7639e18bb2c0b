/** More lists that are longer than a portion: rows of exports compared with responses, expired log entries, dead letters. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { json } from '../api/support/service.ts'
import { withoutPausesOfVerify } from '../e2e/support/impatient.ts'
import { type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'

withoutPausesOfVerify()

let service: LittleService
let warehouse: TestDatabase

beforeEach(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  service.pageSize = 500
})

afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

const run = (...words: string[]) =>
  runCommand(words, { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' })
const at = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString()
const numbered = (count: number) => Array.from({ length: count }, (_, place) => place)

it('verify --deep compares every row of an export with its response, also beyond the first two hundred', async () => {
  const ROWS = 530
  const form = { id: 'f', name: 'Intake' }
  service.records.forms.push({
    ...{ ...form, text: '', enabled: true, created_at: at(0), updated_at: at(0) },
    questions: [{ id: 'q', text: 'Pain', question_type: { question_type: 'number' }, order: 1, choices: [] }],
  })
  service.records.patients.push(...numbered(ROWS).map((n) => ({ id: `p${n}`, updated_at: at(0) })))
  service.records.responses.push(
    ...numbered(ROWS).map((n) => ({
      ...{ id: `r${n}`, form, patient: { id: `p${n}` }, is_submitted: true, created_at: at(0) },
      ...{ submitted_at: at(60), updated_at: at(60) },
      answers: [{ question: { id: 'q', text: 'Pain' }, answer_text: String(n), answer_choices: [] }],
    })),
  )
  service.records.exports.push({ id: 'e', name: 'Intake', form, created_at: at(0) })
  const wrong = [199, 200, 201, 399, 400, 529]
  const file = [
    'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Pain',
    ...numbered(ROWS).map(
      (n) => `p${n},A,B,,2026-01-01 00:00:00,2026-01-01 00:01:00,False,${wrong.includes(n) ? 'else' : n}`,
    ),
    '',
  ].join('\n')
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(file)
    return method === 'POST'
  }
  expect((await run('backfill')).code).toBe(0)
  const ended = await run('verify', '--deep', '--json', '--streams', 'responses,exports')
  expect(ended.code, ended.output).toBe(4)
  const { deep } = JSON.parse(ended.stdout)
  expect(deep.rows).toBe(ROWS)
  expect(deep.differences.map((each: { row_number: number }) => each.row_number)).toEqual(
    wrong.map((n) => n + 1),
  )
  expect(deep.differences.map((each: { response_id: string }) => each.response_id)).toEqual(
    wrong.map((n) => `r${n}`),
  )
})

it('verify looks at every record that seems to differ by its id, and repairs each, also beyond the first two hundred', async () => {
  const IDS = numbered(210).map((n) => `p${n}`)
  const person = (id: string, name: string) => ({ id, first_name: name, last_name: 'A', updated_at: at(0) })
  service.records.patients.push(...IDS.map((id) => person(id, 'loaded')))
  const streams = ['--streams', 'patients']
  expect((await run('backfill', ...streams)).code).toBe(0)
  // A list with as many requests as there are records is not read again.
  service.pageSize = 1
  const stale = (name: string) => {
    service.interfere = ({ url }, response) => {
      if (/p[0-9]+$/.test(new URL(url, service.url).pathname)) return false
      const page = Number(new URL(url, service.url).searchParams.get('page') ?? 1)
      const next = page < IDS.length ? `${service.url}/v2/patients?page=${page + 1}` : null
      json(response, { count: IDS.length, next, previous: null, results: [person(IDS[page - 1]!, name)] })
      return true
    }
  }
  stale('stale')
  const verify = async (...words: string[]) => {
    const ended = await run('verify', '--json', ...streams, ...words)
    return { code: ended.code, found: JSON.parse(ended.stdout).streams.patients }
  }
  expect(await verify()).toMatchObject({ code: 0, found: { missing: [], extra: [], different: [] } })
  service.records.patients = IDS.map((id) => person(id, 'changed'))
  stale('changed')
  expect(await verify('--repair')).toMatchObject({ code: 0, found: { repaired: IDS.length } })
  const left = await query(warehouse.url, `select from intake.patients where first_name <> 'changed'`)
  expect(left).toEqual([])
})

it('entries that a log has dropped are expected unchanged, also beyond the first thousand', async () => {
  const ENTRIES = 2_300
  const idOf = (n: number) => `d${String(n).padStart(5, '0')}`
  service.records.webhookDeliveries.push(
    ...numbered(ENTRIES).map((n) => ({
      ...{ id: idOf(n), event: `event ${n}`, event_type: 'patient.updated', status: 'failed' },
      created_at: at(n),
    })),
  )
  const streams = ['--streams', 'webhook_deliveries']
  expect((await run('backfill', ...streams)).code).toBe(0)
  service.records.webhookDeliveries.splice(0, 2_200)
  const verify = async (...words: string[]) => {
    const ended = await run('verify', '--json', ...streams, ...words)
    return { code: ended.code, found: JSON.parse(ended.stdout).streams.webhook_deliveries }
  }
  expect(await verify()).toMatchObject({ code: 0, found: { missing: [], extra: [], different: [] } })
  const wrong = [3, 999, 1_000, 1_001, 2_000, 2_199].map(idOf)
  await query(warehouse.url, `update intake.webhook_deliveries set status = 'else' where id = any($1)`, [
    wrong,
  ])
  const { code, found } = await verify()
  expect(code).toBe(4)
  expect(found.different.map(({ id }: { id: string }) => id)).toEqual(wrong)
  expect(await verify('--repair')).toMatchObject({ code: 0, found: { repaired: wrong.length } })
  expect(await query(warehouse.url, `select from intake.webhook_deliveries where status = 'else'`)).toEqual(
    [],
  )
})

it('a run fetches a limited number of dead letters, and the next run the rest', async () => {
  const LETTERS = 130
  const response = (id: string, second: number) => ({
    ...{ id, form: { id: 'f' }, patient: { id: 'p' }, is_submitted: true, answers: [], created_at: at(0) },
    ...{ form_name: 'refused', submitted_at: at(second), updated_at: at(second) },
  })
  const old = numbered(LETTERS).map((n) => `r${String(n).padStart(3, '0')}`)
  service.records.responses.push(...old.map((id) => response(id, 0)), response('new', 60 * 86_400))
  const { url } = warehouse
  await query(
    url,
    `alter table intake.responses add constraint picky check (id = 'new' or form_name <> 'refused')`,
  )
  expect((await run('backfill', '--streams', 'responses')).code).toBe(4)
  await query(url, 'alter table intake.responses drop constraint picky')
  const state = async () => {
    const [row] = await query<{ loaded: number; waiting: number }>(
      url,
      `select (select count(*)::int from intake.responses) as loaded,
         (select count(*)::int from intake_ops.dead_letters where status = 'waiting') as waiting`,
    )
    return row!
  }
  expect(await state()).toEqual({ loaded: 1, waiting: LETTERS })
  service.interfere = ({ url: path }) => {
    // Records that arrive in a window are independent of waiting ones.
    if (path.includes('submitted_after')) for (const id of old) service.unlisted.add(id)
    return false
  }
  const asked = async () => {
    const before = service.received.length
    const { code } = await run('backfill', '--streams', 'responses')
    const ids = service.received.slice(before).flatMap(({ url: path }) => /\/(r\d+)$/.exec(path)?.[1] ?? [])
    return { code, asked: ids.length, different: new Set(ids).size }
  }
  expect(await asked()).toEqual({ code: 4, asked: 100, different: 100 })
  expect(await state()).toEqual({ loaded: 101, waiting: 30 })
  expect(await asked()).toEqual({ code: 0, asked: 30, different: 30 })
  expect(await state()).toEqual({ loaded: LETTERS + 1, waiting: 0 })
})
