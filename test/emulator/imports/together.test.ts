/** Imports of every kind at once, the same survey twice, and records that are generated besides them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'
import { askFor, readCsv } from '../http/resources/exporting.ts'

const folder = mkdtempSync(join(tmpdir(), 'emulator-together-'))
const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}
mkdirSync(join(folder, 'forms'))
mkdirSync(join(folder, 'again'))

const people = file(
  'people.json',
  JSON.stringify([
    { first: 'Ann', id: 'P1' },
    { first: 'Bob', id: 'P2' },
  ]),
)
const mood = file('Mood.csv', 'Sleep,Food\nwell,much\n,little\nbadly,\n')
const again = file('again/Mood.csv', 'Sleep,Food\nnot,none\n')
const pain = file('Pain.csv', 'Where\nback\nknee\n')
const item = (linkId: string) => ({ linkId, text: `Question ${linkId}`, type: 'string' })
file(
  'forms/a.json',
  JSON.stringify({ resourceType: 'Questionnaire', title: 'First', item: [item('1'), item('2')] }),
)
file('forms/b.json', JSON.stringify({ resourceType: 'Questionnaire', title: 'Second', item: [item('1')] }))
file('forms/c.json', '{}')
file('forms/d.json', '{')

const IMPORTS = {
  importPatients: people,
  importQuestionnaires: join(folder, 'forms'),
  importSurvey: [mood, again, mood, pain],
}
/** Rows of each survey, in the order of the options. */
const SURVEYS: readonly (readonly [name: string, titles: string[], rows: string[][]])[] = [
  [
    'Mood',
    ['Sleep', 'Food'],
    [
      ['well', 'much'],
      ['', 'little'],
      ['badly', ''],
    ],
  ],
  ['Mood', ['Sleep', 'Food'], [['not', 'none']]],
  [
    'Mood',
    ['Sleep', 'Food'],
    [
      ['well', 'much'],
      ['', 'little'],
      ['badly', ''],
    ],
  ],
  ['Pain', ['Where'], [['back'], ['knee']]],
]

let emulator: Emulator
let caller: Caller
let patients: Loose[]
let forms: Loose[]
let responses: Loose[]

beforeAll(async () => {
  const sizes = { patients: 5, forms: 3, packets: 3, documents: 2, responses: 60 }
  emulator = await startEmulator({ port: 0, ...sizes, ...IMPORTS })
  caller = callerOf(emulator)
  patients = await caller.rows('/v2/patients')
  forms = await caller.rows('/v2/forms')
  responses = await caller.rows('/v2/responses')
})
afterAll(async () => {
  await emulator.close()
  rmSync(folder, { recursive: true })
})

const namesOf = (rows: Loose[]) => rows.map(({ name }) => name)
const idsOf = (rows: Loose[]) => rows.map(({ id }) => id)

it('the report counts everything, and names what was left out', () => {
  expect(emulator.imported).toEqual({
    ...{ patients: 11, forms: 6, questions: 10, responses: 9, skipped: ['c.json'] },
    failed: [{ file: 'd.json', reason: 'is not valid JSON' }],
  })
})

it('surveys come first, then other forms, then generated ones; people, then clients of surveys, then generated ones', () => {
  const generated = ['Intake', 'Medication list', 'Mood check']
  expect(namesOf(forms)).toEqual([
    ...namesOf([...SURVEYS.map(([name]) => ({ name }))]),
    'First',
    'Second',
    ...generated,
  ])
  expect(patients.map(({ external_id }) => external_id?.replace(/^EHR-.*/, 'EHR') ?? 'EHR')).toEqual([
    ...['P1', 'P2', 'row 1', 'row 2', 'row 3', 'row 1', 'row 1', 'row 2', 'row 3', 'row 1', 'row 2'],
    ...Array(5).fill('EHR'),
  ])
  expect(responses).toHaveLength(9 + 60)
  for (const rows of [patients, forms, responses, forms.flatMap(({ questions }) => questions)])
    expect(new Set(idsOf(rows)).size).toBe(rows.length)
  const answers = responses.flatMap((one) => one.answers)
  expect(new Set(idsOf(answers)).size).toBe(answers.length)
})

describe('each survey', () => {
  it.each(SURVEYS.map(([name, titles, rows], at) => [at, name, titles, rows] as const))(
    'number %i, %s, has its rows in its export, its responses and its filter, each of a client of its own',
    async (at, name, titles, rows) => {
      const form = forms[at]
      const before = SURVEYS.slice(0, at).reduce((sum, [, , all]) => sum + all.length, 0)
      const own = responses.slice(before, before + rows.length)
      const clients = patients.slice(2 + before, 2 + before + rows.length)
      expect(own.map((one) => [one.form_id, one.form_name, one.patient.id])).toEqual(
        clients.map(({ id }) => [form.id, name, id]),
      )
      const texts = own.map(({ answers }) =>
        answers.map((one: Loose) => [one.question.text, one.answer_text]),
      )
      expect(texts).toEqual(
        rows.map((row) => row.map((cell, column) => [titles[column], cell === '' ? null : cell])),
      )
      expect(await caller.rows(`/v2/responses?form=${form.id}`)).toEqual(own)
      expect(await caller.rows(`/v2/responses?patient=${clients.at(-1).id}&form=${form.id}`)).toEqual(
        own.slice(-1),
      )
      const listed = (await caller.rows('/v2/export-csv')).find((one) => one.form.id === form.id)!
      const sheet = readCsv((await askFor(caller, listed.id, 'v2.1', 'raw_text')).text)
      expect([sheet.titles.slice(7), sheet.rows.map((row) => row.slice(7))]).toEqual([titles, rows])
      expect(sheet.rows.map(([id]) => id)).toEqual(idsOf(clients))
      for (const { submitted_at, created_at, updated_at, is_submitted } of own)
        expect([is_submitted, submitted_at > created_at, updated_at]).toEqual([true, true, submitted_at])
    },
  )
})

it('what is generated asks for no survey, but for imported and generated forms alike, of all people', async () => {
  const surveys = new Set(idsOf(forms.slice(0, 4)))
  const generated = responses.slice(9)
  const asked = new Set(generated.map(({ form_id }) => form_id))
  expect([...asked].filter((id) => surveys.has(id))).toEqual([])
  expect(asked.has(forms[4].id) && asked.has(forms[6].id)).toBe(true)
  const messages = await caller.rows('/v2/messages')
  expect(messages.filter(({ form }) => surveys.has(form?.id))).toEqual([])
  const packets = await caller.rows('/v2/packets')
  expect(
    packets.flatMap((one) => idsOf(one.forms)).filter((id) => !idsOf(forms.slice(6)).includes(id)),
  ).toEqual([])
  const others = generated.map(({ patient }) => idsOf(patients).indexOf(patient.id))
  expect(others.some((at) => at < 2) && others.some((at) => at > 10)).toBe(true)
})

it('other teams have none of them', async () => {
  for (const [environment, team] of [
    [0, 1],
    [1, 0],
    [1, 1],
  ] as const) {
    const other = callerOf(emulator, environment, team)
    expect(namesOf(await other.rows('/v2/forms'))).toEqual(['Intake', 'Medication list', 'Mood check'])
    expect(await other.rows('/v2/patients')).toHaveLength(5)
    expect(await other.rows('/v2/responses')).toHaveLength(60)
  }
})

it('responses of a survey count for none of those that are asked for', async () => {
  const nothing = { port: 0, patients: 0, forms: 0, packets: 0, documents: 0 }
  await expect(startEmulator({ ...nothing, importSurvey: mood, responses: 2 })).rejects.toThrow(
    '--responses: needs',
  )
  await using alone = await startEmulator({ ...nothing, importSurvey: mood })
  expect(await callerOf(alone).rows('/v2/responses')).toHaveLength(3)
})
