/** The questions that responses answer, as wide views know them: whose text is kept, which repeat, and when all are read again. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { followAnswers, forgetAnswersRead } from '../../../src/analytics/wide/wide-questions.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'answered' })
  await session.client.query(`insert into intake.teams (name) values ('north'), ('south')`)
})
afterAll(async () => {
  await session.close()
  await database.drop()
})

/** Stores a response with its payload's record; of each question, its text. */
async function respond(
  team: number,
  id: string,
  form: string,
  patient: string,
  answers: readonly (readonly [string, string | null])[],
) {
  const { client } = session
  await client.query(
    `insert into intake.responses (team_id, id, form_id, patient_id, _version, _origin) values ($1, $2, $3, $4, now(), 'test')`,
    [team, id, form, patient],
  )
  for (const [at, [question, text]] of answers.entries())
    await client.query(
      `insert into intake.response_answers (team_id, response_id, position, value_position, question_id, question_text, value_text)
       select $1, $2, $3, value, $4, $5, 'x' from generate_series(1, 2) value`,
      [team, id, at + 1, question, text],
    )
  await client.query(
    `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
     values ($1, 'responses', $2, now(), now(), '', 'test')`,
    [team, id],
  )
}
const known = async () => {
  const { rows } = await session.client.query(
    `select team_id, left(form_id, 1) || octet_length(form_id) as form, question_id, question_text, repeats
     from intake_raw.answered_questions order by team_id, form_id, question_id`,
  )
  return rows.map((each) =>
    [each.team_id, each.form, each.question_id, each.question_text ?? '-', each.repeats].join(' '),
  )
}

const [LONG, LONGER] = ['f'.repeat(500), 'f'.repeat(501)]

it('the text of a question is kept if several patients of a team were asked it; ids of more than 500 bytes are left out', async () => {
  const asked = (name: string) => [
    ...([
      ['alone', `Of ${name}?`],
      ['same', 'How?'],
      ['unknown', null],
    ] as const),
  ]
  await respond(1, 'r1', 'f', 'ann', asked('Ann'))
  await respond(1, 'r2', 'f', 'bob', [...asked('Bob'), ['once', 'Why?']])
  await respond(1, 'r3', 'f', 'bob', [['once', 'Why?']])
  await respond(2, 'r1', 'f', 'ann', asked('Ann'))
  await respond(1, 'r4', LONG, 'ann', [['q', 'Long']])
  await respond(1, 'r5', LONGER, 'ann', [['q', 'Longer']])
  await followAnswers(session.db)
  expect(await known()).toEqual([
    ...['1 f1 alone - false', '1 f1 once - false', '1 f1 same How? false', '1 f1 unknown - false'],
    '1 f500 q - false',
    ...['2 f1 alone - false', '2 f1 same - false', '2 f1 unknown - false'],
  ])
})

it('a question that one response answered twice is marked as repeated for good, and a text that was kept stays', async () => {
  // Bob again: while another transaction of the server is older, r2 and r3 are read again together with r6. If another
  // patient had been asked the same question, its text would be kept.
  await respond(1, 'r6', 'f', 'bob', [
    ['same', 'How?'],
    ['once', 'Why?'],
    ['same', 'How?'],
  ])
  await followAnswers(session.db)
  const after = ['1 f1 alone - false', '1 f1 once - false', '1 f1 same How? true', '1 f1 unknown - false']
  expect((await known()).slice(0, 4)).toEqual(after)
  await respond(1, 'r7', 'f', 'dan', [['same', 'How many?']])
  await respond(1, 'r8', 'f', 'eve', [['same', 'How many?']])
  await respond(1, 'r9', 'f', 'eve', [['once', 'Why?']])
  await respond(1, 'r10', 'f', 'dan', [['once', 'Why?']])
  await followAnswers(session.db)
  expect((await known()).slice(0, 4)).toEqual(after.map((line) => line.replace('once -', 'once Why?')))
})

it('all answers are read again after responses were rewritten, and not after other streams were', async () => {
  const until = async () =>
    (await session.client.query(`select until = '-infinity' as forgotten from intake_raw.answers_read`))
      .rows[0].forgotten
  expect(await until()).toBe(false)
  for (const stream of ALL_STREAMS) {
    await forgetAnswersRead(session.db, stream)
    expect([stream.name, await until()]).toEqual([stream.name, stream.name === 'responses'])
    await session.client.query(`update intake_raw.answers_read set until = now() where until = '-infinity'`)
  }
})
