/** Exports that differ from responses, or that could not be compared with them, by a process and by workers: what is stored. */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openWorker } from '../../../src/extract/work.ts'
import { WORKS } from '../../../src/reconcile/slices.ts'
import { json } from '../../api/support/service.ts'
import { withoutPauses, withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()
withoutPausesOfVerify()

let service: LittleService
let warehouse: TestDatabase
/** The list of responses that is refused, by its number since the verification began; none if 0. */
let refused = 0
let lists = 0

/** Rows that agree: more than two portions of them are read. */
const MANY = 401
const rowOf = (client: string, answer: number, photos = '') =>
  `${client},A,B,,,2026-01-01 00:01:00,False,${answer},${photos}\n`
const FILE = `Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Pain,Photos
${rowOf('a', 2)}${rowOf('b', 1, 'zoo.png; ape.png').repeat(MANY)}`
const form = { id: 'f', name: 'Intake' }
const at = (minute: number) => `2026-01-01T00:0${minute}:00Z`
const NAMES = 'forms,responses,exports'

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  const question = (order: number, text: string, type: string) => {
    return { id: 'q', text, question_type: { question_type: type }, order, choices: [] }
  }
  // A question that is asked again is of the type of its first place; another team has a form with the same ids.
  const photos = { ...question(3, 'Photos', 'file'), id: 'u' }
  const questions = [question(1, 'Pain', 'number'), question(2, 'Pain again', 'matrix'), photos]
  service.records.forms.push({ ...form, questions })
  await query(
    warehouse.url,
    `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
     values (2, 'f', 0, 'q', 'matrix', 'Theirs')`,
  )
  service.records.exports.push({ id: 'e', name: 'Intake', form, created_at: at(0) })
  for (const [id, client] of [
    ['r', 'a'],
    ['s', 'b'],
  ])
    service.records.responses.push({
      ...{ id: id!, form, patient: { id: client }, is_submitted: true, created_at: at(0), updated_at: at(1) },
      submitted_at: at(1),
      // In the order in which they were sent.
      files:
        client === 'a' ? [] : ['zoo', 'ape'].map((name) => ({ name: `${name}.png`, question: { id: 'u' } })),
      answers: [{ question: { id: 'q', text: 'Pain' }, answer_text: '1', answer_choices: [] }],
    })
  service.interfere = ({ method, url }, response) => {
    if (/\/responses(\?|$)/.test(url)) lists += 1
    const isRefused = lists === refused && /\/responses(\?|$)/.test(url)
    if (isRefused) json(response, { detail: 'No.' }, 403)
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(FILE)
    return isRefused || method === 'POST'
  }
  const ended = await runCommand(['backfill', '--streams', NAMES], env())
  expect(ended.code, ended.output).toBe(0)
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

const env = () => ({ ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' })

async function byProcess(): Promise<string> {
  const ended = await runCommand(['verify', '--deep', '--streams', NAMES], env())
  return ended.stdout
}

async function byWorkers(): Promise<string> {
  const words = ['verify', '--deep', '--detach', '--json', '--streams', NAMES]
  const planned = JSON.parse((await runCommand(words, env())).stdout)
  // One for each stream, and the end of the run.
  expect(planned).toMatchObject({ slices: 4, workers: 0 })
  const access = { baseUrl: service.url, apiKey: 'little-key', apiSecret: 'little-secret' }
  const worker = openWorker({
    ...{ url: warehouse.url, clock: systemClock, random: Math.random, logger: pino({ enabled: false }) },
    ...{ works: WORKS, onRunEnded: async () => {} },
    teams: [{ name: 'default', ...access, apiVersion: 'v2.1', concurrency: 1 }],
  })
  try {
    const ended = `select from intake_ops.runs where run_id = ${planned.run_id} and finished_at is not null`
    await expect.poll(() => query(warehouse.url, ended), { timeout: 60_000 }).toHaveLength(1)
  } finally {
    await worker.close()
  }
  return (await runCommand(['runs', 'show', String(planned.run_id)], env(), { columns: 120 })).stdout
}

/** How the newest run ended, and what is stored of its streams. */
async function stored() {
  const [run] = await query(
    warehouse.url,
    `select status, error, options - 'is_detached' as options from intake_ops.runs order by run_id desc limit 1`,
  )
  const verified = await query(
    warehouse.url,
    `select stream, is_equal, source::int as source, deep from intake_ops.verifications
     where run_id = (select max(run_id) from intake_ops.runs) order by stream`,
  )
  return { run, verified }
}

const options = { streams: NAMES.split(','), teams: ['default'], repair: false }
const equal = (stream: string, source = 1) => ({ stream, is_equal: true, source, deep: null })
const others = [equal('forms'), equal('responses', 2)]
const place = { export_id: 'e', response_id: 'r', row_number: 1, position: 8 }
const compared = {
  rows: 1 + MANY,
  cells: 2 * (1 + MANY),
  cellsNotCompared: 0,
  columnsNotCompared: 0,
  differences: [place],
}

test.each([
  ['a process', byProcess, 'default'],
  ['workers', byWorkers, 'default/exports'],
])('where both channels differ, %s stores where, and the run needs attention', async (_, verify, named) => {
  ;[refused, lists] = [0, 0]
  await verify()
  const { run, verified } = await stored()
  const error = `${named}: exports and responses differ in 1 place(s)`
  expect(run).toEqual({ status: 'needs_attention', error, options })
  expect(verified).toEqual([{ ...equal('exports'), deep: compared }, ...others])
})

test.each([
  // By workers, the responses are read for the stream itself, and again for each comparison.
  ['a process that may not read the responses again', byProcess, 2, [equal('exports'), ...others]],
  ['workers that may not read them for the comparison', byWorkers, 2, others],
  ['workers that may not read them again', byWorkers, 3, others],
])(
  '%s: the comparison of the exports has failed, and the streams before it are as they were',
  async (_, verify, nth, kept) => {
    ;[refused, lists] = [nth, 0]
    const said = await verify()
    const { run, verified } = await stored()
    expect(run).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/^default\/exports: [^\n]+$/),
    })
    expect(verified).toEqual(kept)
    // Each stream is shown once.
    for (const stream of NAMES.split(','))
      expect([stream, said.match(new RegExp(`^\\S*${stream} `, 'gm'))?.length]).toEqual([stream, 1])
  },
)
