/** Columns of an export are matched to the question they show, if the title identifies it. */
import { beforeEach, expect, test } from 'vitest'
import { matchQuestions } from '../../../src/load/exports/file-problems.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { type FileService, HEADER, query, rowVersions, runExports, startFileService } from './run.ts'

let database: TestDatabase
let service: FileService

beforeEach(async () => {
  database = await createTestDatabase()
  service = await startFileService()
  return async () => {
    await service[Symbol.asyncDispose]()
    await database.drop()
  }
})

/** Questions of a form as text, id and type. */
async function hold(form: string, questions: readonly (readonly [string | null, string | null, string?])[]) {
  await query(database.url, 'delete from intake.form_questions where form_id = $1', [form])
  for (const [at, [text, id, type = 'short_text']] of questions.entries()) {
    await query(
      database.url,
      `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
       values (1, $1, $2, $3, $4, $5)`,
      [form, at + 1, id, type, text],
    )
  }
}

const run = () => runExports(service.url, database.url)
const matches = async () =>
  (await query(database.url, 'select question_id from intake.export_columns order by position')).map(
    ({ question_id }) => question_id,
  )

function put(titles: readonly string[], form: unknown = { id: 'f1', name: 'F' }) {
  service.put('e1', `${HEADER},${titles.map((title) => `"${title}"`).join()}\n`)
  service.entries = [{ id: 'e1', form }]
}

test('a title that equals the text of exactly one question is that question; any other is none', async () => {
  put(['Name', 'Age', 'Twice', 'name', '', 'Unknown', 'No id', 'Same', 'Name'])
  await hold('f1', [
    ['Name', 'q1'],
    ['Age', 'q2'],
    ['Twice', 'q3'],
    ['Twice', 'q4'],
    ['No id', null],
    ['Same', 'q5'],
    ['Same', 'q5'],
    [null, 'q6'],
  ])
  await hold('f2', [['Unknown', 'q7']])
  await run()
  expect(await matches()).toEqual(['q1', 'q2', null, null, null, null, null, 'q5', 'q1'])
})

test('a title that a question without an id has too is no question, in whichever order they are asked', async () => {
  put(['First', 'Second', 'Drugs - Aspirin - Dose'])
  await hold('f1', [
    ['First', 'q1'],
    ['First', null],
    ['Second', null],
    ['Second', 'q2'],
    ['Drugs', 't1', 'matrix'],
    ['Drugs', null, 'matrix'],
  ])
  await run()
  expect(await matches()).toEqual([null, null, null])
})

test('a title that may be a cell of exactly one matrix is that matrix; of several, none', async () => {
  put([
    'Drugs - Aspirin - Dose',
    'Drugs - Aspirin',
    'Drugs - now - Aspirin - Dose',
    'Pain - left - morning',
    'Drugs - Aspirin - Unit',
  ])
  await hold('f1', [
    ['Drugs', 't1', 'matrix'],
    ['Drugs - now', 't2', 'matrix'],
    ['Pain', 'q1', 'short_text'],
    ['Drugs - Aspirin - Unit', 'q2', 'short_text'],
  ])
  await run()
  expect(await matches()).toEqual(['t1', null, null, null, null])
})

test('columns follow their form when it changes or is deleted, and only changed ones are written', async () => {
  put(['Name', 'Age'])
  await hold('f1', [
    ['Name', 'q1'],
    ['Age', 'q2'],
  ])
  await run()
  const before = await rowVersions(database.url)
  await run()
  expect(await rowVersions(database.url)).toEqual(before)
  await hold('f1', [
    ['Name', 'q1'],
    ['Your age', 'q2'],
  ])
  await using session = await openSession({ url: database.url, purpose: 'match' })
  // With the form, whether a run or an event brings it.
  expect(await matches()).toEqual(['q1', null])
  expect(await matchQuestions(session.db, 1)).toBe(0)
  await hold('f1', [])
  await run()
  expect(await matches()).toEqual([null, null])
})
