/** What a researcher sees (HIPAA Safe Harbor): every column of every view, with canaries in everything that may not be seen. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { CANARY, SEEN } from '../e2e/support/canary.ts'
import { type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { everything, type Login, makeLogin } from './logins.ts'

const PEOPLE = 60
const YEAR = new Date().getUTCFullYear()
const at = { created_at: `${YEAR}-01-01T01:02:03Z`, updated_at: `${YEAR}-01-01T01:02:03Z` }

const QUESTIONS = [
  { id: 'question name', type: 'short_text', text: 'Name' },
  { id: 'question number', type: 'number', text: 'Social security number' },
  { id: 'question age', type: 'number', text: 'How old is your mother?' },
  { id: 'question weight', type: 'number', text: 'Weight (kg)' },
  { id: 'question born', type: 'date', text: 'Date of birth' },
  { id: 'question smoker', type: 'checkbox', text: 'I smoke' },
  { id: 'question payer', type: 'single_choice', text: 'Payer', choices: ['HMO', 'PPO', 'Cash', 'Other'] },
  { id: 'question home', type: 'single_choice', text: 'Home', choices: ['House', 'Flat'] },
  { id: 'question band', type: 'single_choice', text: 'Age of your father', choices: ['80-89', '95-99'] },
  { id: 'question town', type: 'single_choice', text: 'Which town do you live in?', choices: ['Ede', 'Ure'] },
  { id: 'question year', type: 'single_choice', text: 'Year of birth', choices: ['1921', '1980'] },
  { id: 'question visit', type: 'single_choice', text: 'Last visit', choices: ['March 2026', 'Never'] },
  { id: 'question winters', type: 'single_choice', text: 'Winters seen', choices: ['80', '95'] },
  { id: 'question rare', type: 'single_choice', text: 'Asked of few', choices: ['Yes', 'No'] },
] as const

/** Choices that are a day, a month, an old year, a place or a person; and such that are none of these. */
const IDENTIFYING = [
  ...[
    '12/13/1999',
    '1999-12-13',
    '13.12.99',
    '2026-03',
    '03/2026',
    'March 2026',
    'May',
    '5 Mar',
    '5th of Mar',
    'Mar. 5',
  ],
  ...[
    'marzo',
    'Q3',
    'Summer 2025',
    '1921',
    '02139',
    'Cambridge 02139-4307',
    'clerk@example.com',
    '123-45-6789',
  ],
  ...['617-555-0123', '(617) 555 0123'],
]
const HARMLESS = [
  'Yes',
  '5-10',
  '1,000 to 10,000',
  'Maybe',
  'More than half the days',
  'Since 2019',
  '120/80',
  '3.5',
]

/** Of how many patients, in the order of their numbers. */
const PAYERS = [
  ...Array(40).fill('HMO'),
  ...Array(12).fill('PPO'),
  ...Array(5).fill('Cash'),
  'Other',
  'Other',
  'Other',
]

let service: LittleService
let warehouse: TestDatabase
let researcher: Login

const run = async (...words: string[]) => {
  // On a slow machine a backfill reports its progress, at level info.
  const env = { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'warn' }
  const ended = await runCommand(words, env)
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  return ended.stdout
}

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  service.pageSize = 500
  fill(service)
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(exportFile())
    return method === 'POST'
  }
  await run('backfill')
  researcher = await makeLogin(warehouse.url, 'intake_researcher')
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

function fill({ records }: LittleService): void {
  const names = {
    first_name: CANARY,
    last_name: CANARY,
    phone_number: CANARY,
    email: `${CANARY}@example.com`,
  }
  for (let n = 0; n < PEOPLE; n++) {
    records.patients.push({
      ...{
        id: `patient ${n}`,
        external_id: CANARY,
        ...names,
        address: CANARY,
        address2: CANARY,
        city: CANARY,
        provider: CANARY,
      },
      // 20 of one description; 10 whose year differs; 12 in a small area; 14 of ninety and over; 4 like nobody else.
      date_birth:
        n < 20
          ? '1980-02-28'
          : n < 30
            ? `198${n % 10}-02-28`
            : n < 42
              ? '1975-03-27'
              : n < 56
                ? `19${20 + (n % 10)}-04-26`
                : `${2000 + 10 * (n % 2)}-05-25`,
      zipcode: n < 30 ? '02139' : n < 42 ? '03601' : '90210',
      state: n < 30 ? 'MA' : n < 42 ? 'VT' : 'CA',
      sex_at_birth: n % 60 < 42 ? 'Female' : n < 56 ? 'Male' : 'Intersex',
      custom_fields: { [CANARY]: CANARY },
      emergency_contact: { ...names, relationship: CANARY },
      patient_tags: [{ name: CANARY }, { name: 'Fall risk' }, ...(n < 3 ? [{ name: 'Rare tag' }] : [])],
      ...at,
    })
    records.responses.push(response(n, 'form large'))
    if (n < 5) records.responses.push(response(n, 'form small'))
    if (n < 15) records.responses.push(response(n, 'form middle'))
    records.messages.push({
      ...{
        id: `message ${n}`,
        patient: { id: `patient ${n}` },
        form: { id: 'form large', name: 'Large' },
        ...at,
      },
      ...{
        preferred_delivery_method: n < 3 ? 'sms' : 'email',
        status: 'sent',
        target_email: `${CANARY}@example.com`,
        content: CANARY,
      },
      sent_at: `${YEAR}-01-01T00:00:00Z`,
    })
  }
  for (const name of ['large', 'small', 'middle'])
    records.forms.push({
      ...{ id: `form ${name}`, name: `The ${name} form`, text: CANARY, enabled: true, ...at },
      questions: QUESTIONS.map((question, place) => ({
        ...{ id: question.id, text: question.text, help_text: CANARY, order: place + 1 },
        question_type: { question_type: question.type, question_subtype: null },
        choices:
          'choices' in question
            ? question.choices.map((text) => ({ id: `choice ${text}`, text_value: text }))
            : [],
      })),
    })
  records.exports.push({
    id: 'export one',
    // The name of its wide view, which the report names.
    name: 'Monthly list',
    form: { id: 'form large', name: 'Large' },
    created_at: at.created_at,
  })
}

function response(n: number, form: string) {
  const answer = (id: string, given: object) => ({
    question: { id, text: QUESTIONS.find((each) => each.id === id)!.text },
    answer_choices: [],
    ...given,
  })
  const text = (id: string, answer_text: string) => answer(id, { answer_text })
  const choice = (id: string, chosen: string) =>
    answer(id, { answer_text: '', answer_choices: [{ question_choice: { id: 'x', text_value: chosen } }] })
  return {
    ...{
      id: `response ${n} ${form}`,
      form: { id: form, name: form },
      form_name: CANARY,
      is_submitted: n < 58,
      ...at,
    },
    patient: { id: `patient ${n}`, first_name: CANARY },
    submitted_at: n < 58 ? `${YEAR}-01-02T03:04:05Z` : null,
    answers: [
      text('question name', CANARY),
      text('question number', String(123_456_700 + n)),
      text('question age', String(n < 15 ? 103 : 40 + n / 2)),
      text('question weight', n === 0 ? '312.5' : String(60 + (n % 20))),
      text('question born', n < 20 ? '1980-02-28' : '1931-12-13'),
      text('question smoker', n < 4 ? 'true' : 'false'),
      choice('question payer', PAYERS[n]!),
      choice('question home', n % 2 ? 'House' : 'Flat'),
      // A response that is open has no time, from which to count the years.
      choice('question band', n % 2 && n < 58 ? '80-89' : '95-99'),
      choice('question town', n % 2 ? 'Ede' : 'Ure'),
      choice('question year', n % 2 ? '1921' : '1980'),
      choice('question visit', n % 2 ? 'March 2026' : 'Never'),
      choice('question winters', n % 2 && n < 58 ? '80' : '95'),
      ...(n < 4 ? [choice('question rare', 'Yes')] : []),
    ],
    matrix_cells: [
      {
        question: { id: 'question name' },
        row: { text: CANARY },
        column: { text: CANARY },
        answer_text: CANARY,
      },
    ],
  }
}

function exportFile(): string {
  const rows = Array.from({ length: PEOPLE }, (_, n) =>
    [
      `patient ${n}`,
      CANARY,
      CANARY,
      CANARY,
      `${YEAR}-01-01 00:00:00`,
      `${YEAR}-01-02 00:00:00`,
      'False',
      CANARY,
      123456700 + n,
      PAYERS[n],
      n % 2 ? 'House' : 'Flat',
    ].join(),
  )
  return [
    'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Name,Social security number,Payer,Home',
    ...rows,
    '',
  ].join('\n')
}

interface Column {
  readonly view: string
  readonly name: string
  readonly type: string
}

const columns = () =>
  query<Column>(
    warehouse.url,
    `select c.relname as view, a.attname as name, format_type(a.atttypid, null) as type
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
     where c.relnamespace = 'intake_safe_harbor'::regnamespace order by 1, a.attnum`,
  )

/** The number of patients of each value. */
const people = async (view: string, column: string, where = 'true') =>
  Object.fromEntries(
    (
      await researcher.rows<{ value: string | null; people: number }>(
        `select ${column}::text as value, count(distinct patient)::int as people from intake_safe_harbor.${view} where ${where} group by 1`,
      )
    ).map(({ value, people: count }) => [String(value), count]),
  )

describe('a researcher', () => {
  it('reads the views of intake_safe_harbor, and nothing else', async () => {
    const elsewhere = await query<{ name: string }>(
      warehouse.url,
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname ~ '^intake' and n.nspname <> 'intake_safe_harbor' and c.relkind in ('r', 'v', 'p')`,
    )
    expect(elsewhere.length).toBeGreaterThan(80)
    const ends = await researcher.endings(elsewhere.map(({ name }) => `select from ${name}`))
    expect(new Set(ends)).toEqual(new Set(['42501']))
    const views = [...new Set((await columns()).map(({ view }) => view))]
    expect(await researcher.endings(views.map((view) => `select * from intake_safe_harbor.${view}`))).toEqual(
      views.map(() => null),
    )
    expect(views.length).toBe(12)
  })

  it('sees no name, address, text, id, date, ZIP code, undecided number or tag in any column of any view, though each view has rows', async () => {
    const seen = await everything(researcher, 'intake_safe_harbor')
    for (const { view } of await columns())
      if (!['packet_progress', 'scores'].includes(view))
        expect(seen, view).toContain(`intake_safe_harbor.${view} `)
    const lines = seen.split('\n')
    expect(lines.filter((line) => SEEN.test(line))).toEqual([])
    expect(
      lines.filter((line) => /"(patient|response|message|question|form|export|choice) [a-z0-9]+/.test(line)),
    ).toEqual([])
    expect(lines.filter((line) => /\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d\.|T\d\d:\d\d/.test(line))).toEqual([])
    expect(
      lines.filter((line) =>
        /"zip3": "(?!000|021|902)|\b1234567\d\d\b|\b103\b|Fall risk|Rare tag/.test(line),
      ),
    ).toEqual([])
    const types = new Set((await columns()).map(({ type }) => type))
    expect([...types].filter((type) => /date|time/.test(type))).toEqual([])
  })

  it('has a code for each record, the same in every view, which no analyst has', async () => {
    const ids = (await columns()).filter(({ name }) => name === 'patient' || /_id$/.test(name))
    expect(ids.length).toBeGreaterThan(25)
    const codes = ids.filter(({ name }) => name !== 'team_id')
    for (const view of new Set(codes.map((code) => code.view))) {
      const own = codes.filter((code) => code.view === view)
      const pairs = own.map(({ name }) => `('${name}', ${name})`)
      // Each view is read once: that takes longer than to look at one of its columns.
      const odd = await researcher.rows(
        `select name, code from intake_safe_harbor.${view} cross join lateral (values ${pairs.join(', ')}) as codes (name, code)
         where code !~ '^[0-9a-f]{32}$'`,
      )
      expect(odd, view).toEqual([])
    }
    const [joined] = await researcher.rows(
      `select count(*)::int as rows, count(distinct patient)::int as patients from intake_safe_harbor.patients
       join intake_safe_harbor.answers using (team_id, patient) join intake_safe_harbor.responses using (team_id, patient, response_id)
       where choice = 'House'`,
    )
    expect(joined).toEqual({ rows: 30, patients: 30 })
    const both = await query(
      warehouse.url,
      `select from intake_analytics.patients a join intake_safe_harbor.patients r on a.patient like r.patient || '%'`,
    )
    expect(both).toEqual([])
  })
})

describe('a patient', () => {
  it('is described as far as eleven others share it; of ninety and over, and from small areas, as the rule says', async () => {
    const rows = await researcher.rows(
      `select birth_year, age_band, zip3, state, sex_at_birth, count(*)::int as patients from intake_safe_harbor.patients
       group by 1, 2, 3, 4, 5 order by patients desc, zip3`,
    )
    // At the end of the year: a band that changed on a birthday would reveal it.
    const band = (born: number) => {
      const age = YEAR - born
      return `${Math.floor(age / 10) * 10}-${Math.floor(age / 10) * 10 + 9}`
    }
    // The ten whose years differ share one of the twenty's, or a decade with too few.
    expect(rows[0]).toMatchObject({
      birth_year: 1980,
      age_band: band(1980),
      zip3: '021',
      state: 'MA',
      sex_at_birth: 'Female',
    })
    expect(rows).toContainEqual({
      birth_year: null,
      age_band: '90+',
      zip3: '902',
      state: 'CA',
      sex_at_birth: 'Male',
      patients: 14,
    })
    expect(rows).toContainEqual({
      birth_year: 1975,
      age_band: band(1975),
      zip3: '000',
      state: 'VT',
      sex_at_birth: 'Female',
      patients: 12,
    })
    for (const row of rows) if (row.age_band !== null) expect(row.patients).toBeGreaterThanOrEqual(11)
  })

  it('has the tags that were decided on, if eleven patients have them', async () => {
    await run('classify', 'tag', 'Fall risk', 'visible')
    await run('classify', 'tag', 'Rare tag', 'visible')
    expect(await people('patients', 'tags')).toEqual({ '{"Fall risk"}': PEOPLE })
    expect(JSON.parse(await run('classify', 'tag', '--json')).tags).toContainEqual({
      team: 'default',
      name: 'Rare tag',
      patients: 3,
    })
    // Fifty-seven of sixty: the three who lack it would be known.
    await query(
      warehouse.url,
      `delete from intake.patient_tags where name = 'Fall risk' and patient_id in ('patient 7', 'patient 8', 'patient 9')`,
    )
    expect(await people('patients', 'tags')).toEqual({ '{}': PEOPLE })
    await run('classify', 'tag', 'Fall risk', 'hidden')
    expect(await people('patients', 'tags')).toEqual({ '{}': PEOPLE })
  })
})

describe('a value of fewer than eleven patients', () => {
  it('is hidden with as many others as it takes that the hidden ones are two values of eleven patients', async () => {
    // Other 3 and Cash 5 are eight; PPO with them are twenty.
    expect(await people('answers', 'choice', `question_text = 'Payer' and form = 'The large form'`)).toEqual({
      HMO: 40,
      null: 20,
    })
    expect(await people('answers', 'choice', `question_text = 'Home'`)).toEqual({ House: 30, Flat: 30 })
    // Two values: the larger one would tell the smaller.
    expect(await people('answers', 'value_boolean', `question_text = 'I smoke'`)).toEqual({ null: 60 })
    expect(await people('message_outcomes', 'channel')).toEqual({ null: 60 })
    expect(await people('responses', 'is_submitted', 'form is not null')).toEqual({ null: 60 })
    expect(await people('export_answers', 'choice', `question_text = 'Payer'`)).toEqual({ HMO: 40, null: 20 })
  })

  it('a form of few patients is hidden with the next larger one, with its questions and answers', async () => {
    expect(await people('responses', 'form')).toEqual({ 'The large form': 60, null: 15 })
    expect(await people('answers', 'form')).toEqual({ 'The large form': 60 })
    for (const view of ['questions', 'choices', 'form_completion', 'yearly_volume'])
      expect(await researcher.rows(`select distinct form from intake_safe_harbor.${view}`), view).toEqual([
        { form: 'The large form' },
      ])
    const hidden = await researcher.rows(
      `select from intake_safe_harbor.responses where form is null and coalesce(form_id, is_submitted::text, created_year::text, submitted_year::text, visit::text) is not null`,
    )
    expect(hidden).toEqual([])
  })

  it('a question asked of few is hidden', async () => {
    const asked = await researcher.rows<{ question_text: string }>(
      'select question_text from intake_safe_harbor.questions',
    )
    expect(asked.map(({ question_text }) => question_text)).not.toContain('Asked of few')
    expect(asked).toHaveLength(QUESTIONS.length - 1)
  })

  it('a count is null, not small', async () => {
    expect(
      await researcher.rows(
        'select started::int, submitted, open, share_submitted from intake_safe_harbor.form_completion',
      ),
    ).toEqual([{ started: 60, submitted: null, open: null, share_submitted: null }])
    expect(
      await researcher.rows(
        'select year, responses_asked::int, responses_submitted, messages_sent::int from intake_safe_harbor.yearly_volume',
      ),
    ).toEqual([{ year: YEAR, responses_asked: 60, responses_submitted: null, messages_sent: 60 }])
  })
})

describe('what follows from another column', () => {
  it('is hidden with it: a year of submission, a place in the order, a status, the name of a team', async () => {
    // Two of sixty are open, so nobody may know of one that it is not.
    expect(await people('responses', 'submitted_year', 'form is not null')).toEqual({ null: 60 })
    expect(await people('responses', 'visit', 'form is not null')).toEqual({ 1: 60 })
    expect(await people('answers', 'submitted_year')).toEqual({ null: 60 })
    await query(
      warehouse.url,
      `update intake.messages set status = 'failed' where id in ('message 0', 'message 1')`,
    )
    await query(warehouse.url, `update intake.messages set status = 'opened' where id ~ 'message 2'`)
    expect(await people('message_outcomes', 'status', 'form is not null')).toEqual({ null: 60 })
    await query(warehouse.url, `update intake.messages set status = 'sent'`)
    expect(await people('message_outcomes', 'status', 'form is not null')).toEqual({ sent: 60 })
    expect(await researcher.rows('select * from intake_safe_harbor.teams')).toEqual([
      { team_id: 1, team: 'team 1' },
    ])
  })

  it('has a score, or has none, of at least eleven patients; nobody can tell who was not scored', async () => {
    await query(
      warehouse.url,
      `insert into intake.forms (team_id, id, name, _version, _origin, _loaded_at, _hash) values (1, 'mood', 'Mood', now(), 'page', now(), '');
       insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
       values (1, 'mood', 1, 'm1', 'single_choice', 'Little interest or pleasure in doing things'), (1, 'mood', 2, 'm2', 'single_choice', 'Feeling down, depressed, or hopeless');
       insert into intake.question_choices (team_id, form_id, question_position, position, question_id, choice_id, text)
       select 1, 'mood', q, c, 'm' || q, c::text, (array['Not at all', 'Nearly every day'])[c] from generate_series(1, 2) q, generate_series(1, 2) c;
       insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, created_at, submitted_at, _version, _origin, _loaded_at, _hash)
       select 1, 'mood ' || n, 'patient ' || n, 'mood', n < 57, now(), case when n < 57 then now() end, now(), 'page', now(), '' from generate_series(0, 59) n;
       insert into intake.response_answers (team_id, response_id, position, value_position, question_id, question_text, value_text)
       select 1, 'mood ' || n, q, 1, 'm' || q, f.text, case when n < 20 then 'Nearly every day' else 'Not at all' end
       from generate_series(0, 59) n join intake.form_questions f on f.form_id = 'mood' cross join lateral (select f.position as q) p`,
    )
    await migrate(warehouse.url)
    const analyst = await query(
      warehouse.url,
      `select count(*)::int as rows from intake_analytics.scores where form_id = 'mood' and score is not null`,
    )
    expect(analyst).toEqual([{ rows: 57 }])
    // Three are open. Without their rows, or with the band of the twenty, they would be known.
    const bands = await people('scores', 'band')
    expect(Object.entries(bands).filter(([band]) => band !== 'null')).toEqual([[expect.any(String), 37]])
    expect(bands.null).toBe(23)
    expect(await people('scores', 'submitted_year')).toEqual({ null: 60 })
    await query(
      warehouse.url,
      `delete from intake.response_answers where response_id ~ '^mood'; delete from intake.responses where form_id = 'mood';
       delete from intake.question_choices where form_id = 'mood'; delete from intake.form_questions where form_id = 'mood'; delete from intake.forms where id = 'mood'`,
    )
    await migrate(warehouse.url)
  })
})

describe('a number, a date or a text', () => {
  const numbers = async (question: string) =>
    (
      await researcher.rows<{ n: number }>(
        'select distinct value_number::float8 as n from intake_safe_harbor.answers where question_text = $1 and value_number is not null order by 1',
        [question],
      )
    ).map(({ n }) => n)
  const decide = (question: string, ...how: string[]) => run('classify', 'set', question, ...how)

  it('is hidden until it is decided on for researchers: a decision for analysts is not enough', async () => {
    await decide('question weight', 'visible')
    await decide('question name', 'visible')
    expect(await numbers('Weight (kg)')).toEqual([])
    await decide('question weight', '--researchers', 'visible')
    await decide('question name', '--researchers', 'visible')
    expect(await everything(researcher, 'intake_safe_harbor')).not.toMatch(SEEN)
    await decide('question weight', '--researchers', 'hidden')
    expect(await numbers('Weight (kg)')).toEqual([])
  })

  it('at both ends stands for at least eleven patients', async () => {
    await decide('question weight', '--researchers', 'visible')
    // 60 to 79, three patients each, and one of 312.5: the eleventh from the ends are 63 and 76.
    expect(await numbers('Weight (kg)')).toEqual([63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76])
    const [ends] = await researcher.rows(
      `select count(distinct patient) filter (where value_number = 63)::int as least, count(distinct patient) filter (where value_number = 76)::int as greatest
       from intake_safe_harbor.answers`,
    )
    expect(Math.min(...Object.values(ends!).map(Number))).toBeGreaterThanOrEqual(11)
  })

  it('that is an age is at most 90, whether the question says so or a person; 90+ is one choice', async () => {
    await decide('question age', '--researchers', 'visible')
    expect(Math.max(...(await numbers('How old is your mother?')))).toBe(90)
    await decide('question number', '--researchers', 'age')
    expect(await numbers('Social security number')).toEqual([90])
    await decide('question number', '--researchers', 'structured')
    expect(await numbers('Social security number')).toEqual([])
    expect(await people('answers', 'choice', `question_text = 'Age of your father'`)).toEqual({
      '80-89': 29,
      '90+': 31,
    })
  })

  it('that is an age counts the years since it was given, as a number does: one that may be 90 by now is hidden', async () => {
    const age = async (years: number) => {
      await query(
        warehouse.url,
        "update intake.responses set submitted_at = submitted_at + $1::int * interval '1 year'",
        [-years],
      )
      return people('answers', 'choice', `question_text = 'Age of your father'`)
    }
    expect(await age(1)).toEqual({ null: 29, '90+': 31 })
    expect(await age(9)).toEqual({ '90+': 60 })
    expect(await age(-10)).toEqual({ '80-89': 29, '90+': 31 })
    const shown = await query<{ ages: (string | null)[]; choices: string[] }>(
      warehouse.url,
      `select array(select intake_raw.safe_age(choice, years) from unnest($1::text[], $2::int[]) as own (choice, years)) as ages,
         array(select choice from unnest($3::text[]) as choice where intake_raw.safe_choice(choice, false, false, false) is not null) as choices`,
      [
        [
          '85-89',
          '85-89',
          '88',
          '65 or older',
          '85+',
          'Under 18',
          'Under 95',
          'Unknown',
          '40-49',
          '95',
          '85-99 (4)',
          '2019',
        ],
        [0, 3, 3, 3, 6, 9, 0, 0, null, null, 0, 0],
        [...IDENTIFYING, ...HARMLESS],
      ],
    )
    expect(shown).toEqual([
      {
        ages: [
          '85-89',
          null,
          '90+',
          '65 or older',
          '90+',
          'Under 18',
          null,
          'Unknown',
          null,
          '90+',
          null,
          '2019',
        ],
        choices: HARMLESS,
      },
    ])
  })

  it('that is a date is a year, and none of ninety years ago', async () => {
    await decide('question born', 'visible')
    await decide('question born', '--researchers', 'visible')
    const shown = await people('answers', 'value_year', `question_text = 'Date of birth'`)
    expect(shown).toEqual({ 1980: 20, null: 40 })
  })

  const chosen = (question: string) =>
    people('answers', 'choice', `question_text = '${question}' and form = 'The large form'`)

  it('that is a choice of a town, a day or a year of ninety years ago is hidden; somebody may decide on the first two', async () => {
    expect(await chosen('Which town do you live in?')).toEqual({ null: 60 })
    expect(await chosen('Last visit')).toEqual({ Never: 30, null: 30 })
    expect(await chosen('Year of birth')).toEqual({ 1980: 30, null: 30 })
    for (const question of ['question town', 'question visit', 'question year'])
      await decide(question, '--researchers', 'visible')
    expect(await chosen('Which town do you live in?')).toEqual({ Ede: 30, Ure: 30 })
    expect(await chosen('Last visit')).toEqual({ Never: 30, 'March 2026': 30 })
    expect(await chosen('Year of birth')).toEqual({ 1980: 30, null: 30 })
    await decide('question town', '--researchers', 'structured')
    expect(await chosen('Which town do you live in?')).toEqual({ null: 60 })
  })

  it('that was hidden, or is an age, stays so when its question is reworded, until somebody decides again', async () => {
    const reword = (id: string, text: string) =>
      query(warehouse.url, 'update intake.form_questions set text = $2 where question_id = $1', [id, text])
    await decide('question home', '--researchers', 'hidden')
    await decide('question winters', '--researchers', 'age')
    await reword('question home', 'Your home')
    await reword('question winters', 'Winters lived')
    expect(await chosen('Your home')).toEqual({ null: 60 })
    expect(await chosen('Winters lived')).toEqual({ 80: 29, '90+': 31 })
    await decide('question home', '--researchers', 'structured')
    expect(await chosen('Your home')).toEqual({ House: 30, Flat: 30 })
  })

  it('of a question that was reworded since waits for a decision', async () => {
    await query(
      warehouse.url,
      `update intake.form_questions set text = 'Phone number' where question_id = 'question weight'`,
    )
    expect(await numbers('Phone number')).toEqual([])
  })
})

describe('privacy report', () => {
  const report = async () => {
    const ended = await runCommand(['privacy', 'report', '--json'], { DATABASE_URL: warehouse.url })
    expect(ended.stdout).not.toMatch(SEEN)
    return { code: ended.code, document: JSON.parse(ended.stdout) as Report }
  }

  it('finds no broken rule, and counts columns, values and descriptions of each view', async () => {
    const { code, document } = await report()
    const [limited, safe, ...wide] = document.tiers
    expect([limited!.broken, safe!.broken, document.broken, code]).toEqual([0, 0, 0, 0])
    const payers = wide.map(({ schema, views }) => {
      const { columns } = views.find(({ view }) => /large|monthly/.test(view))!
      return [schema, columns.find(({ column }) => column === 'payer')!.values_under]
    })
    // Cash and Other.
    expect(payers).toEqual([
      ['intake_forms', 2],
      ['intake_exports', 2],
    ])
    expect(
      safe!.views.flatMap(({ view, columns }) => columns.map(({ column }) => `${view}.${column}`)),
    ).toEqual((await columns()).map(({ view, name }) => `${view}.${name}`))
    expect(safe!.k_anonymity.k).toBeGreaterThanOrEqual(11)
    expect(limited!.k_anonymity.people_in_groups_under).toBeGreaterThan(0)
    const under = (tier: Report['tiers'][number]) =>
      tier.views
        .flatMap((view) => view.columns)
        .reduce((sum, { values_under }) => sum + (values_under ?? 0), 0)
    expect([under(limited!) > 0, under(safe!)]).toEqual([true, 0])
    expect((await run('privacy', 'report')).match(/no rule is broken/g)).toHaveLength(4)
  })

  it('ends with 4 and names each column that breaks a rule', async () => {
    await query(
      warehouse.url,
      `create view intake_safe_harbor.mine as
         select team_id, id as patient, date_birth, external_id, created_at, zipcode as zip3 from intake.patients`,
    )
    const { code, document } = await report()
    expect(code).toBe(4)
    const mine = document.tiers[1]!.views.find(({ view }) => view === 'mine')!
    expect(mine.columns.filter(({ broken }) => broken > 0).map(({ column }) => column)).toEqual([
      ...['patient', 'date_birth', 'external_id', 'created_at', 'zip3'],
    ])
    await query(warehouse.url, 'drop view intake_safe_harbor.mine')
  })

  it('measures what the views promise without their functions: what these let through breaks a rule', async () => {
    const functions = await query<{ text: string }>(
      warehouse.url,
      `select pg_get_functiondef(oid) as text from pg_proc where pronamespace = 'intake_raw'::regnamespace and proname in ('safe_choice', 'safe_age')`,
    )
    await query(
      warehouse.url,
      `delete from intake_ops.research_questions where question_id in ('question visit', 'question year', 'question town')`,
    )
    await query(
      warehouse.url,
      `create or replace function intake_raw.safe_choice(choice text, is_age boolean, is_year boolean, is_decided boolean) returns text
         language sql stable return choice;
       create or replace function intake_raw.safe_age(choice text, years int) returns text language sql immutable return choice`,
    )
    const { code, document } = await report()
    for (const { text } of functions) await query(warehouse.url, text)
    const choice = document.tiers[1]!.views.find(({ view }) => view === 'answers')!.columns.find(
      ({ column }) => column === 'choice',
    )!
    // Thirty months, thirty years of birth, and thirty-one ages to each of two questions.
    expect([code, choice.broken]).toEqual([4, 122])
    expect((await report()).code).toBe(0)
  })
})

interface Report {
  readonly broken: number
  readonly tiers: readonly {
    readonly schema: string
    readonly broken: number
    readonly views: readonly {
      readonly view: string
      readonly columns: readonly {
        readonly column: string
        readonly broken: number
        readonly values_under: number | null
      }[]
    }[]
    readonly k_anonymity: { readonly k: number; readonly people_in_groups_under: number }
  }[]
}
