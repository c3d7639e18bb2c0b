/** Which response a row of an export belongs to, and which rows and responses have none. */
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openWorker } from '../../../src/extract/work.ts'
import { WORKS } from '../../../src/reconcile/slices.ts'
import { json } from '../../api/support/service.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

let service: LittleService
let warehouse: TestDatabase

const at = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString()
const form = { id: 'f', name: 'Intake' }
const QUESTIONS = [
  { id: 'q', text: 'Pain', question_type: { question_type: 'number' }, order: 1, choices: [] },
  { id: 'm', text: 'Drugs', question_type: { question_type: 'matrix' }, order: 2, choices: [] },
]

/** A response that its client submitted at this second; an open one if null. */
function response(id: string, second: number | null, answer: number, more: object = {}) {
  return {
    ...{
      id,
      form,
      patient: { id: id[0] },
      is_submitted: second !== null,
      created_at: at(0),
      updated_at: at(999),
    },
    submitted_at: second === null ? null : at(second),
    answers: [{ question: { id: 'q', text: 'Pain' }, answer_text: String(answer), answer_choices: [] }],
    ...more,
  }
}

const WITHOUT_ROW_TEXT = { matrix_cells: [{ question: { id: 'm' }, column: 'Dose', answer_text: '81 mg' }] }

const RESPONSES = [
  response('a1', 60, 1),
  response('a2', 120, 2),
  response('b1', 60, 1),
  response('b2', null, 9),
  response('c1', null, 3),
  response('d1', 60, 4),
  response('d2', 300, 9, { is_skipped: true }),
  response('g1', 60, 1),
  response('g2', 120, 1),
  response('h1', 60, 1, { is_skipped: true }),
  response('i1', null, 1),
  response('j1', 60, 1, { form: { id: 'other', name: 'Other' } }),
  response('k1', 60, 5),
  response('l1', 60, 5),
  response('l2', 60, 6),
  response('n1', 60, 7, WITHOUT_ROW_TEXT),
  // Submitted at once: either may be the latest.
  ...[response('o2', 60, 2), response('o1', 60, 1), response('p2', 60, 2), response('p1', 60, 1)],
]

/** Client, second of submission, answer. */
const FILE: readonly (readonly [client: string, second: number | null, answer: string])[] = [
  ['a', 120, '2'],
  ['b', 60, '1'],
  ['c', null, '3'],
  ['d', 60, '4'],
  ['e', 60, '1'],
  ['k', 61, '5'],
  ['l', 60, '6'],
  ['n', 60, '8'],
  ['', 60, '1'],
  ['o', 60, '9'],
]

function fileOf(rows: typeof FILE): string {
  const time = (second: number | null) => (second === null ? '' : at(second).replace('T', ' ').slice(0, 19))
  const lines = rows.map(([client, second, answer]) => `${client},A,B,,,${time(second)},False,${answer},,?`)
  return [
    'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Pain,Drugs,Unknown',
    ...lines,
    '',
  ].join('\n')
}

/** Of another form, to which one of these clients responded. */
const SECOND = `Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived
j,A,B,,,2026-01-01 00:01:00,False
g,A,B,,,2026-01-01 00:01:00,False
`

const fileAnswer = (response: Parameters<typeof json>[0], text: string) =>
  response.writeHead(200, { 'content-type': 'text/plain' }).end(text)

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  service.pageSize = 100
  const times = { created_at: at(0), updated_at: at(0) }
  service.records.forms.push({ ...form, text: '', enabled: true, ...times, questions: QUESTIONS })
  service.records.responses.push(...RESPONSES)
  service.records.exports.push(
    { id: 'e', name: 'Intake', form, created_at: at(0) },
    { id: 'of no form', name: 'x', form: null, created_at: at(0) },
    { id: 'unread', name: 'x', form, created_at: at(0) },
    { id: 'second', name: 'x', form: { id: 'other', name: 'Other' }, created_at: at(0) },
  )
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

const LIST = /\/responses(\?|$)/
/** Lists of responses that were requested. */
let lists = 0
beforeEach(() => {
  lists = 0
  service.interfere = ({ method, url, body }, response) => {
    if (LIST.test(url)) lists += 1
    if (method !== 'POST') return false
    if (String(body).includes('unread')) json(response, { detail: 'No.' }, 400)
    else fileAnswer(response, String(body).includes('second') ? SECOND : fileOf(FILE))
    return true
  }
})

const run = (...words: string[]) =>
  runCommand(words, { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' })

const NAMES = 'forms,responses,exports'

test('a row belongs to the latest submitted response of its client to the form, else to an open one', async () => {
  expect((await run('backfill', '--streams', NAMES)).code).toBe(4)
  await query(warehouse.url, `update intake.exports set name = 'spoiled' where id = 'unread'`)
  const ended = await run('verify', '--deep', '--json', '--streams', NAMES)
  expect(ended.code, ended.output).toBe(4)
  const { deep, streams } = JSON.parse(ended.stdout)
  expect(deep).toEqual({
    rows: FILE.length + 2,
    cells: (FILE.length - 2) * 2 - 1,
    // Those of rows without a response, and one whose texts are unknown.
    cells_not_compared: 2 * 2 + 1,
    columns_not_compared: 1,
    differences: [
      { export_id: 'e', response_id: null, row_number: 5, position: null },
      { export_id: 'e', response_id: 'k1', row_number: 6, position: 6 },
      { export_id: 'e', response_id: 'n1', row_number: 8, position: 8 },
      { export_id: 'e', response_id: null, row_number: 9, position: null },
      // Of several that are as good, the first by its id, each time they are compared.
      { export_id: 'e', response_id: 'o1', row_number: 10, position: 8 },
      { export_id: 'e', response_id: 'g2', row_number: null, position: null },
      { export_id: 'e', response_id: 'p1', row_number: null, position: null },
      { export_id: 'second', response_id: null, row_number: 2, position: null },
    ],
  })
  // Of an export whose file cannot be read, its entry is compared.
  expect(streams.exports.note).toContain('1 file(s) could not be compared')
  expect(streams.exports.different).toEqual([{ id: 'unread', fields: ['name'] }])
})

/** Plans the verification, lets a worker execute it, and returns how the run ended. */
async function verifiedByWorker() {
  const planned = await run('verify', '--deep', '--detach', '--json', '--streams', NAMES)
  const { run_id } = JSON.parse(planned.stdout)
  const { INTAKE_API_KEY: apiKey, INTAKE_API_SECRET: apiSecret } = service.env
  const access = { apiKey, apiSecret, apiVersion: 'v2.1', concurrency: 2 }
  const worker = openWorker({
    ...{ url: warehouse.url, clock: systemClock, random: Math.random, logger: pino({ enabled: false }) },
    ...{ works: WORKS, onRunEnded: async () => {}, concurrency: 1 },
    teams: [{ name: 'default', baseUrl: service.url, ...access }],
  })
  const ended = () =>
    query<{ status: string; error: string | null }>(
      warehouse.url,
      `select status, error from intake_ops.runs where run_id = $1 and finished_at is not null`,
      [run_id],
    )
  try {
    await expect.poll(async () => (await ended()).length).toBe(1)
  } finally {
    await worker.close()
  }
  return { run_id, ...(await ended())[0]! }
}

test('a verification by workers finds the same, needs attention, and says in how many places they differ', async () => {
  const findings = () =>
    query<{ run: number; deep: object }>(
      warehouse.url,
      `select run_id::int as run, deep from intake_ops.verifications where stream = 'exports' order by run_id desc limit 2`,
    )
  // With equal tables, the places alone need attention.
  await query(warehouse.url, `update intake.exports set name = 'x' where id = 'unread'`)
  const { run_id, ...ended } = await verifiedByWorker()
  expect(ended).toEqual({
    status: 'needs_attention',
    error: 'default/exports: exports and responses differ in 8 place(s)',
  })
  const [own, before] = await findings()
  expect(own!.run).toBe(run_id)
  expect(own!.deep).toEqual(before!.deep)
  // Of tables that differ too, both are said.
  await query(warehouse.url, `update intake.exports set name = 'x'`)
  const { error } = await verifiedByWorker()
  expect(error).toMatch(/^default\/exports: .+; exports and responses differ in 8 place\(s\)$/)
})

/** The service refuses the list of responses when it is read a second time. */
function refuseSecondReading(): void {
  const { interfere } = service
  service.interfere = (request, answer) => {
    if (interfere(request, answer)) return true
    const isSecond = LIST.test(request.url) && lists > 1
    if (isSecond) json(answer, {}, 403)
    return isSecond
  }
}

test('where a worker cannot read the responses for the comparison, the exports fail, and their tables are not called equal', async () => {
  refuseSecondReading()
  const { run_id, ...ended } = await verifiedByWorker()
  expect(ended).toEqual({ status: 'failed', error: expect.stringMatching(/^default\/exports: .*403/) })
  const compared = `select stream from intake_ops.verifications where run_id = $1 order by 1`
  expect(await query(warehouse.url, compared, [run_id])).toEqual([
    { stream: 'forms' },
    { stream: 'responses' },
  ])
})

test('where the second reading fails, the exports fail, and the streams that were compared keep their results', async () => {
  refuseSecondReading()
  const ended = await run('verify', '--deep', '--json', '--streams', NAMES)
  expect(ended.code, ended.output).toBe(1)
  expect(JSON.parse(ended.stdout)).toMatchObject({
    ...{ status: 'failed', equal: false, deep: null },
    streams: {
      responses: { source: RESPONSES.length, error: null },
      exports: { source: null, error: expect.any(String) },
    },
  })
})

test('a difference that only the first reading of the responses shows does not count', async () => {
  service.records.responses = RESPONSES.map((each) => (each.id === 'a2' ? response('a2', 120, 7) : each))
  const loaded = await run('backfill', '--full', '--streams', 'responses')
  expect(loaded.code, loaded.output).toBe(0)
  lists = 0
  const { interfere } = service
  service.interfere = (request, answer) => {
    if (interfere(request, answer)) return true
    if (lists > 1) service.records.responses = RESPONSES
    return false
  }
  const { deep } = JSON.parse((await run('verify', '--deep', '--json', '--streams', NAMES)).stdout)
  expect(lists).toBe(2)
  expect(deep.differences.map((each: { row_number: number | null }) => each.row_number)).toEqual([
    ...[5, 6, 8, 9, 10, null, null, 2],
  ])
})
