/** The queries of docs/queries from 21 on give the answers of a small, fixed world, which everybody can work out. */
import { createHmac } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LittleRecord, type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { openWarehouse } from '../e2e/support/scene.ts'
import { until } from '../e2e/support/serving.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { type Login, makeLogin } from './logins.ts'

const KEY = 'the key of the fixed world'
const ANN = createHmac('sha256', KEY).update('1:ann').digest('hex')
const BOB = createHmac('sha256', KEY).update('1:bob').digest('hex')
const PROVIDER = '6f0d2c11-93a4-4d7e-8f10-2b3c4d5e6f70'

const folder = new URL('../../docs/queries/', import.meta.url)
const files = readdirSync(folder)

let warehouse: TestDatabase
let service: LittleService
let analyst: Login
let clinician: Login

const at = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' }

const patient = (id: string, city: string, more: object): LittleRecord => ({
  ...{ id, first_name: id, last_name: id, city, zipcode: '10001', ...at, ...more },
})

type Question = readonly [id: string, type: string, text: string, choices?: readonly string[]]

const form = (
  id: string,
  name: string,
  questions: readonly Question[],
  updated_at: string,
): LittleRecord => ({
  ...{ id, name, text: '', enabled: true, created_at: at.created_at, updated_at },
  questions: questions.map(([question, type, text, choices = []], place) => ({
    ...{ id: question, text, help_text: '', order: place + 1 },
    question_type: { question_type: type, question_subtype: null },
    choices: choices.map((text_value, each) => ({ id: `${question} ${each}`, text_value })),
  })),
})

const PHQ = ['Not at all', 'Several days', 'More than half the days', 'Nearly every day']
const FORMS = (age: string, updated: string): LittleRecord[] => [
  form(
    'intake',
    'Intake',
    [
      ['mood', 'short_text', 'How are you?'],
      ['age', 'number', age],
      ['payer', 'single_choice', 'Payer', ['PPO', 'HMO']],
    ],
    updated,
  ),
  form(
    'insurance',
    'Insurance',
    [['plan', 'single_choice', 'Plan', ['Gold', 'Silver', 'None']]],
    at.updated_at,
  ),
  form(
    'phq',
    'Mood',
    [
      ['interest', 'single_choice', 'Little interest or pleasure in doing things', PHQ],
      ['down', 'single_choice', 'Feeling down, depressed, or hopeless', PHQ],
    ],
    at.updated_at,
  ),
]

/** Answers by question: the text that was asked, and what was said. */
const response = (
  id: string,
  of: string,
  who: string,
  submitted_at: string,
  answers: Readonly<Record<string, readonly [asked: string, said: string]>>,
): LittleRecord => ({
  ...{
    id,
    form: { id: of },
    patient: { id: who },
    is_submitted: true,
    is_skipped: false,
    is_archived: false,
  },
  ...{ created_at: submitted_at, updated_at: submitted_at, submitted_at },
  answers: Object.entries(answers).map(([question, [text, said]]) => ({
    question: { id: question, text },
    ...(['mood', 'age'].includes(question)
      ? { answer_text: said, answer_choices: [] }
      : { answer_choices: [said] }),
  })),
})

const phq = (id: string, who: string, submitted: string, interest: number, down: number) =>
  response(id, 'phq', who, submitted, {
    interest: ['Little interest or pleasure in doing things', PHQ[interest]!],
    down: ['Feeling down, depressed, or hopeless', PHQ[down]!],
  })

const intake = (id: string, who: string, submitted: string, asked: string, age: string, payer: string) =>
  response(id, 'intake', who, submitted, {
    mood: ['How are you?', 'fine'],
    age: [asked, age],
    payer: ['Payer', payer],
  })

// Five hours behind UTC in January.
const FILE = [
  'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Plan',
  'ann,a,b,,2026-01-11 21:00:00.000000,2026-01-11 22:00:00.000000,True,Gold',
  'nobody,a,b,,2026-01-11 21:00:00.000000,2026-01-11 22:00:00.000000,False,Silver',
  '',
].join('\n')

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  service.interfere = ({ method }, answer) => {
    if (method === 'POST') answer.writeHead(200, { 'content-type': 'text/plain' }).end(FILE)
    return method === 'POST'
  }
  const { records } = service
  const run = async (...words: string[]) => {
    const env = {
      ...service.env,
      DATABASE_URL: warehouse.url,
      INTAKE_ANALYTICS_KEY: KEY,
      INTAKE_TIMEZONE: 'America/New_York',
      // On a slow machine a backfill reports its progress, at level info.
      LOG_LEVEL: 'warn',
    }
    expect(await runCommand(words, env)).toMatchObject({ code: 0, stderr: '' })
  }
  records.patients.push(
    patient('ann', 'Albany', { state: 'NY', provider: PROVIDER }),
    patient('bob', 'Fresno', { state: 'CA' }),
  )
  records.forms.push(...FORMS('Age', at.updated_at))
  records.responses.push(
    phq('s1', 'ann', '2026-01-05T15:00:00Z', 0, 1),
    phq('s2', 'ann', '2026-01-12T15:00:00Z', 2, 2),
    phq('s3', 'bob', '2026-01-12T15:00:00Z', 3, 3),
    intake('r1', 'ann', '2026-01-05T15:00:00Z', 'Age', '41', 'PPO'),
    intake('r2', 'bob', '2026-01-13T15:00:00Z', 'Age', '52', 'HMO'),
    // A Monday in UTC, a Sunday in New York.
    response('i1', 'insurance', 'ann', '2026-01-12T03:00:00Z', { plan: ['Plan', 'Gold'] }),
    intake('gone', 'bob', '2026-01-13T15:00:00Z', 'Age', '53', 'HMO'),
  )
  records.exports.push({
    id: 'e',
    name: 'All',
    form: { id: 'insurance', name: 'Insurance' },
    created_at: at.created_at,
  })
  await run('backfill')
  await run('classify', 'set', 'age', 'visible')
  records.forms.splice(0, 3, ...FORMS('Age, in years', '2026-03-01T00:00:00Z'))
  records.responses.splice(6, 1, intake('r3', 'ann', '2026-03-02T15:00:00Z', 'Age, in years', '42', 'HMO'))
  records.patients[0] = patient('ann', 'Boston', {
    state: 'NY',
    provider: PROVIDER,
    updated_at: '2026-03-01T00:00:00Z',
  })
  await run('backfill', '--full')
  analyst = await makeLogin(warehouse.url, 'intake_analyst')
  clinician = await makeLogin(warehouse.url, 'intake_clinical')
  const wide = await answer('25')
  // Nobody decided on the new wording yet.
  expect(wide.map(({ age }) => age)).toEqual([null, null, null])
  expect(await answer('23')).toHaveLength(1)
  await run('classify', 'set', 'age', 'visible')
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

/** In the order of the query; days and times as text. */
async function answer(number: string): Promise<readonly Record<string, unknown>[]> {
  const name = files.find((file) => file.startsWith(number))!
  const text = readFileSync(new URL(name, folder), 'utf8')
  const rows = await (text.includes('intake_clinical') ? clinician : analyst).rows<Record<string, unknown>>(
    text,
  )
  return rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([key, value]) => [
        key,
        value instanceof Date ? value.toISOString().slice(0, 16) : value,
      ]),
    ),
  )
}

describe('the answer of', () => {
  it('21 is the score of each patient over time', async () => {
    const of = (who: string, submitted_at: string, score: number, band: string, change: number | null) => ({
      ...{ patient: who, instrument: 'phq-2', submitted_at, score: String(score), band },
      change: change === null ? null : String(change),
    })
    const ann = [
      of(ANN, '2026-01-05T15:00', 1, 'negative', null),
      of(ANN, '2026-01-12T15:00', 4, 'positive', 3),
    ]
    const bob = [of(BOB, '2026-01-12T15:00', 6, 'positive', null)]
    expect(await answer('21')).toEqual(ANN < BOB ? [...ann, ...bob] : [...bob, ...ann])
  })

  it('22 counts weeks of the team, by provider and state', async () => {
    const rows = (await answer('22')).map(({ week, provider, state, responses }) => [
      ...[String(week).slice(0, 10), provider, state, responses],
    ])
    expect(rows).toEqual([
      ['2026-01-05', PROVIDER, 'NY', 3],
      ['2026-01-12', PROVIDER, 'NY', 1],
      ['2026-01-12', null, 'CA', 2],
      ['2026-03-02', PROVIDER, 'NY', 1],
    ])
  })

  it('23 names the free texts that are hidden', async () => {
    expect(await answer('23')).toEqual([
      { form: 'Intake', position: 1, question: 'How are you?', question_type: 'short_text', waits: false },
    ])
  })

  it('24 has the choices that nobody took', async () => {
    expect(await answer('24')).toEqual(
      ['Gold', 'Silver', 'None'].map((choice, place) => ({
        ...{ question: 'Plan', position: place + 1, choice, times: choice === 'Gold' ? 1 : 0 },
      })),
    )
  })

  it('25 keeps the column of a question that was reworded', async () => {
    const rows = (await answer('25')).map(({ response_id, how_are_you, age, payer }) => [
      response_id,
      how_are_you,
      age,
      payer,
    ])
    expect(rows).toEqual([
      ['r1', null, '41', 'PPO'],
      ['r2', null, '52', 'HMO'],
      ['r3', null, '42', 'HMO'],
    ])
  })

  it('26 joins the rows of an export to their responses', async () => {
    expect(await answer('26')).toEqual([{ form: 'Insurance', rows: 2, with_response: 1, archived_since: 1 }])
  })

  it('27 counts what changed since yesterday', async () => {
    const expected = [
      ['exports', 'upsert', 1],
      ['forms', 'upsert', 3],
      ['patients', 'upsert', 2],
      ['responses', 'delete', 1],
      ['responses', 'upsert', 7],
    ]
    let rows: unknown[] = []
    // A change is visible once every older transaction of the server has ended.
    await until('all changes are visible', async () => {
      rows = (await answer('27')).map(({ stream, operation, records }) => [stream, operation, records])
      return JSON.stringify(rows) === JSON.stringify(expected)
    })
    expect(rows).toEqual(expected)
  })

  it('28 is each patient as of a day', async () => {
    const rows = (await answer('28')).map(({ patient_id, city, is_earlier_state_unknown }) => [
      ...[patient_id, city, is_earlier_state_unknown],
    ])
    expect(rows).toEqual([
      ['ann', 'Albany', false],
      ['bob', 'Fresno', false],
    ])
    await expect(
      analyst.endings([readFileSync(new URL('28-patients-as-of.sql', folder), 'utf8')]),
    ).resolves.toEqual(['42501'])
  })

  it('29 says how current each stream is', async () => {
    const rows = await answer('29')
    expect(rows.map(({ stream, is_stale }) => [stream, is_stale])).toEqual([
      ...['documents', 'exports', 'forms', 'messages'].map((stream) => [stream, false]),
      // Webhooks only, and there were none.
      ['packet_responses', true],
      ...['packets', 'patients', 'responses'].map((stream) => [stream, false]),
    ])
    expect(rows.find(({ stream }) => stream === 'patients')).toMatchObject({
      ...{ team: 'default', newest_record_at: '2026-03-01T00:00', last_event_at: null },
    })
  })

  it('30 describes every column that analysts see', async () => {
    const rows = await answer('30')
    expect(rows.length).toBeGreaterThan(150)
    expect(rows.filter(({ description }) => description === null)).toEqual([])
    expect(rows).toContainEqual({
      ...{ view: 'teams', column: 'team', type: 'text', description: 'Name of the team.' },
    })
  })
})
