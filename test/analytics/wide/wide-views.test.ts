/** One column per question, typed and named, that stays whatever happens to the question. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { columnsFor, MAX_COLUMNS, nameFor, slugOf } from '../../../src/analytics/wide/wide-columns.ts'
import {
  type LittleRecord,
  type LittleService,
  startLittleService,
} from '../../e2e/support/little-service.ts'
import { connect, openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'
import { makeLogin } from '../logins.ts'

interface Asked {
  readonly id: string
  readonly type: string
  readonly text: string
  readonly block?: string
}

const at = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' }

const form = (id: string, name: string, questions: readonly Asked[]): LittleRecord => ({
  ...{ id, name, text: '', enabled: true, ...at },
  questions: questions.map(({ id: question, type, text, ...rest }, place) => ({
    ...{ id: question, text, help_text: '', order: place + 1, choices: [], ...rest },
    question_type: { question_type: type, question_subtype: null },
  })),
})

const response = (id: string, of: string, parts: object): LittleRecord => ({
  ...{
    id,
    form: { id: of },
    patient: { id: 'p' },
    is_submitted: true,
    submitted_at: '2026-01-02T00:00:00Z',
    ...at,
  },
  ...parts,
})

const said = (question: string, answer_text: unknown, text = question) => ({
  ...{ question: { id: question, text }, answer_text, answer_choices: [] },
})

describe('a name', () => {
  const naming = { empty: 'question', prefix: 'q_', taken: new Set(['order', 'weight_kg', 'x'.repeat(63)]) }

  it.each([
    ['Weight (kg)', 'weight_kg_2'],
    ['  Größe — été?  ', 'grosse_ete'],
    ['1. Felt flat', 'q_1_felt_flat'],
    ['', 'question'],
    ['???', 'question'],
    ['order', 'order_2'],
    ['体重', '体重'],
    ['\u1109\u1165\u11bc\u1106\u1167\u11bc', '\uc131\uba85'],
    ['X'.repeat(99), `${'x'.repeat(61)}_2`],
    ['é'.repeat(99), 'e'.repeat(63)],
    ['体'.repeat(99), '体'.repeat(21)],
  ])('for %j is %s', (text, name) => {
    expect(nameFor(text, naming)).toBe(name)
    expect(Buffer.byteLength(nameFor(text, naming))).toBeLessThanOrEqual(63)
  })

  it('is the same for the same text', () => {
    expect(slugOf('Café')).toBe(slugOf('Cafe\u0301'))
  })
})

describe('columns', () => {
  it('do not exceed the number that Postgres allows, for any form, and existing ones take precedence', () => {
    const asked = Array.from({ length: 1_700 }, (_, at) => ({
      ...{ question_id: `q${at}`, question_text: 'What?', question_type: 'short_text', kind: 'text' },
      ...{ repeats: false, is_asked: true },
    }))
    const columns = columnsFor([], asked, new Set())
    expect(columns).toHaveLength(MAX_COLUMNS)
    expect(new Set(columns.map(({ column_name }) => column_name)).size).toBe(MAX_COLUMNS)
    expect(columnsFor(columns, asked.toReversed(), new Set())).toEqual(columns)
  })

  it('of a question that is no longer asked stay, whatever it would become now', () => {
    const asked = { question_id: 'q', question_text: 'Age', repeats: false }
    const number = columnsFor(
      [],
      [{ ...asked, question_type: 'number', kind: 'number', is_asked: true }],
      new Set(),
    )
    const gone = { ...asked, question_type: null, kind: 'other', is_asked: false }
    expect(columnsFor(number, [gone], new Set())).toEqual(number)
  })
})

describe('the type of a column', () => {
  it.each([
    ['number', 'slider', false, 'numeric'],
    ['number', 'slider', true, 'numeric[]'],
    ['checkbox', 'yes_no', false, 'boolean'],
    ['checkbox', 'yes_no', true, 'boolean[]'],
    ['date', 'Date', false, 'date'],
    ['date', 'date', true, 'date[]'],
    ['date', 'datetime', false, 'text'],
    ['date', 'datetime', true, 'text[]'],
    ['date', null, false, 'text'],
    ['year', 'date', true, 'integer'],
    ['choice', 'dropdown', false, 'text'],
    ['choice', 'dropdown', true, 'text[]'],
    ['choice', 'Multi_select', false, 'text[]'],
    ['choice', null, false, 'text'],
    ['file', 'file', false, 'text[]'],
    ['matrix', 'matrix', true, 'jsonb'],
    ['signature', 'signature', true, 'timestamptz'],
    ['text', 'long_text', false, 'text'],
    ['other', null, true, 'text[]'],
  ])('of a question of kind %s and type %s that repeats (%s) is %s', (kind, question_type, repeats, type) => {
    const asked = { question_id: 'q', question_text: 'Q', question_type, kind, repeats, is_asked: true }
    const [column, ...others] = columnsFor([], [asked], new Set())
    expect(others).toEqual([])
    expect(`${column!.data_type}${column!.is_array ? '[]' : ''}`).toBe(type)
    expect(columnsFor([], [{ ...asked, is_asked: false }], new Set())).toEqual([column])
  })

  it.each([
    ['text', true],
    ['number', true],
    ['checkbox', true],
    ['matrix', false],
    ['signature', false],
    ['year', false],
  ])(
    'of a question of kind %s that is no longer asked becomes an array once an answer repeats: %s',
    (kind, grows) => {
      const asked = {
        question_id: 'q',
        question_text: 'Q',
        question_type: null,
        kind,
        repeats: false,
        is_asked: true,
      }
      const before = columnsFor([], [asked], new Set())
      const left = { ...asked, question_text: 'about one', kind: 'other', is_asked: false }
      expect(columnsFor(before, [left], new Set())).toEqual(before)
      const after = columnsFor(before, [{ ...left, repeats: true }], new Set())
      expect(after.map(({ column_name }) => column_name)).toEqual(grows ? ['q', 'q_all'] : ['q'])
      expect(after[0]).toEqual(before[0])
    },
  )
})

describe('columns of a question', () => {
  const asked = (kind: string, repeats: boolean) => ({
    ...{ question_id: 'q', question_text: 'Medicine', question_type: kind, kind, repeats, is_asked: true },
  })
  const columnsAfter = (...states: (readonly [kind: string, repeats: boolean])[]) => {
    let columns: ReturnType<typeof columnsFor> = []
    for (const [kind, repeats] of states) columns = columnsFor(columns, [asked(kind, repeats)], new Set())
    return columns.map(
      ({ place, column_name, data_type, is_array }) =>
        `${place} ${column_name} ${data_type}${is_array ? '[]' : ''}`,
    )
  }

  it('stay one array when it stops repeating; when it begins to repeat or changes its type, one is added, once', () => {
    expect(columnsAfter(['text', true], ['text', false])).toEqual(['1 medicine text[]'])
    const grown = ['1 medicine text', '2 medicine_all text[]']
    expect(columnsAfter(['text', false], ['text', true])).toEqual(grown)
    expect(columnsAfter(['text', false], ['text', true], ['text', false], ['text', true])).toEqual(grown)
    const typed = ['1 medicine text', '2 medicine_numeric numeric']
    expect(columnsAfter(['text', false], ['number', false])).toEqual(typed)
    expect(columnsAfter(['text', false], ['number', false], ['text', false])).toEqual(typed)
  })
})

describe('the view of a form', () => {
  let service: LittleService
  let warehouse: TestDatabase

  beforeAll(async () => {
    warehouse = await openWarehouse()
    service = await startLittleService()
  })
  afterAll(async () => {
    await service[Symbol.asyncDispose]()
    await warehouse.drop()
  })

  const run = async (...words: string[]) => {
    // On a slow machine a backfill reports its progress, at level info.
    const env = { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'warn' }
    const ended = await runCommand(words, env)
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    return ended
  }
  const rows = (text: string) => query<Record<string, unknown>>(warehouse.url, text)
  const columns = async (view: string) =>
    (
      await rows(
        `select attname as name, format_type(atttypid, null) as type from pg_attribute
         where attrelid = '${view}'::regclass and attnum > 9 order by attnum`,
      )
    ).map(({ name, type }) => `${name} ${type}`)

  const QUESTIONS: readonly Asked[] = [
    { id: 'q1', type: 'short_text', text: 'Name' },
    { id: 'q2', type: 'short_text', text: 'Name' },
    { id: 'q3', type: 'number', text: 'Weight (kg)' },
    { id: 'q4', type: 'checkbox', text: 'Order?' },
    { id: 'q5', type: 'single_choice', text: '' },
    { id: 'q6', type: 'multiple_choice', text: 'response_id' },
    { id: 'q7', type: 'date', text: 'Date of birth' },
    { id: 'q8', type: 'matrix', text: `It's "quoted"; drop table x --` },
    { id: 'q9', type: 'file', text: 'Card' },
    { id: 'q10', type: 'signature', text: 'Signature' },
    { id: 'q11', type: 'display_only', text: 'Welcome' },
    { id: 'q12', type: 'short_text', text: 'Medicine', block: 'b' },
    { id: 'q13', type: 'number', text: 'Years', block: 'b' },
    { id: 'q14', type: 'long_text', text: `${'Very '.repeat(30)}long` },
    { id: 'q15', type: 'long_text', text: `${'Very '.repeat(30)}long` },
  ]

  const ANSWERS = {
    answers: [
      said('q1', 'Ann'),
      said('q2', 'Dr. Bob'),
      said('q3', '81.50'),
      said('q4', 'true'),
      { question: { id: 'q5' }, answer_choices: [{ question_choice: { id: 'c', text_value: 'HMO' } }] },
      { question: { id: 'q6' }, answer_choices: ['Cane', 'Walker'] },
      said('q7', '1980-02-29'),
      said('q12', 'Aspirin'),
      said('q13', '3'),
      said('q12', 'Statin'),
      said('q13', 'some'),
      said('left over', 'of a question that was', 'What was asked before'),
    ],
    matrix_cells: [
      {
        question: { id: 'q8' },
        row: { id: 'r', text: 'Morning' },
        column: { id: 'k', text: 'Dose' },
        answer_text: '81 mg',
      },
    ],
    files: [{ id: 'x', question: { id: 'q9' }, name: 'card.png', size: 1 }],
    e_signatures: [
      { id: 's', question: { id: 'q10' }, signer_name: 'Ann', signed_at: '2026-01-02T00:00:00Z' },
    ],
  }

  const FIRST = [
    'name text',
    'name_2 text',
    'weight_kg numeric',
    'order_2 boolean',
    'question text',
    'response_id_2 text[]',
    'date_of_birth date',
    'it_s_quoted_drop_table_x jsonb',
    'card text[]',
    'signature timestamp with time zone',
    'medicine text[]',
    'years numeric[]',
    'very_very_very_very_very_very_very_very_very_very_very_very_ver text',
    'very_very_very_very_very_very_very_very_very_very_very_very_v_2 text',
    'what_was_asked_before text',
  ]

  it('has a column per question, typed, with unique names, and blocks and choices as arrays', async () => {
    service.records.forms.push(form('f', 'Intake — été', QUESTIONS))
    const other = { patient: { id: 'q' }, answers: ANSWERS.answers.slice(-1) }
    service.records.responses.push(response('r1', 'f', ANSWERS), response('r2', 'f', { answers: [] }))
    service.records.responses.push(response('r9', 'f', other))
    await run('backfill')
    expect(await columns('intake.form_intake_ete')).toEqual(FIRST)
    const [full, empty] = await rows('select * from intake.form_intake_ete order by response_id')
    expect(full).toMatchObject({
      ...{ team_id: 1, response_id: 'r1', patient_id: 'p', is_submitted: true },
      ...{ name: 'Ann', name_2: 'Dr. Bob', weight_kg: '81.50', order_2: true, question: 'HMO' },
      ...{
        response_id_2: ['Cane', 'Walker'],
        card: ['card.png'],
        medicine: ['Aspirin', 'Statin'],
        years: [3, null],
      },
      it_s_quoted_drop_table_x: [{ row: 'Morning', column: 'Dose', value: '81 mg' }],
      what_was_asked_before: 'of a question that was',
    })
    expect(full!.signature).toEqual(new Date('2026-01-02T00:00:00Z'))
    expect(Object.values(empty!).filter((value) => value !== null)).toHaveLength(6)
    const [comment] = await rows(
      `select obj_description('intake.form_intake_ete'::regclass) as view, col_description('intake.form_intake_ete'::regclass, 17) as matrix,
         col_description('intake.form_intake_ete'::regclass, 14) as untitled`,
    )
    expect(comment).toEqual({
      view: 'One row a response to the form Intake — été, one column a question.',
      matrix: `It's "quoted"; drop table x --`,
      untitled: 'Question q5.',
    })
  })

  it('keeps every column and answer when questions are reworded, reordered, added, removed and retyped', async () => {
    const before = await rows(`select * from intake.form_intake_ete where response_id = 'r1'`)
    const changed = QUESTIONS.filter(({ id }) => id !== 'q2' && id !== 'q6')
      .toReversed()
      .map((each) => (each.id === 'q1' ? { ...each, text: 'Full name' } : each))
      .map((each) => (each.id === 'q3' ? { ...each, type: 'short_text' } : each))
    service.records.forms[0] = form('f', 'Renamed', [...changed, { id: 'q16', type: 'number', text: 'Name' }])
    service.records.responses.push(
      response('r3', 'f', { answers: [said('q3', 'about 80'), said('q16', '7')] }),
    )
    await run('backfill', '--full')
    expect(await columns('intake.form_intake_ete')).toEqual([
      ...FIRST,
      'weight_kg_text text',
      'name_3 numeric',
    ])
    const [after, added] = await rows(
      `select * from intake.form_intake_ete where response_id in ('r1', 'r3') order by response_id`,
    )
    expect(after).toEqual({ ...before[0], weight_kg_text: '81.50', name_3: null })
    expect(added).toMatchObject({ weight_kg: null, weight_kg_text: 'about 80', name_3: '7' })
    const mapping = await rows(
      `select column_name, question_text from intake.form_columns where question_id in ('q1', 'q2') order by place`,
    )
    expect(mapping).toEqual([
      { column_name: 'name', question_text: 'Full name' },
      { column_name: 'name_2', question_text: 'Name' },
    ])
  })

  it('for analysts has the same columns, of answers that they may see, through every change', async () => {
    const seen = `select * from intake_forms.form_intake_ete where response_id in ('r1', 'r3') order by response_id`
    const analyst = await makeLogin(warehouse.url, 'intake_analyst')
    const forAnalysts = (column: string) =>
      column.replace(/^(card|signature) .*/, '$1 boolean').replace(/^(date_of_birth) date/, '$1 integer')
    expect(await columns('intake_forms.form_intake_ete')).toEqual([
      ...FIRST.map(forAnalysts),
      'weight_kg_text text',
      'name_3 numeric',
    ])
    const seenRows = await analyst.rows(seen)
    expect(seenRows).toMatchObject([
      // Their answers name no text of the form, so that nobody decided on what they answer.
      {
        response_id: 'r1',
        name: null,
        order_2: null,
        medicine: null,
        card: true,
        signature: true,
        name_3: null,
      },
      { response_id: 'r3', name: null, weight_kg_text: null, card: false, signature: false },
    ])
  })

  it('stays when its form is deleted, with its answers', async () => {
    service.records.forms.splice(0)
    await run('backfill', '--full')
    expect(await rows('select from intake.forms where _deleted_at is null')).toEqual([])
    expect(await rows('select name from intake.form_intake_ete where name is not null')).toEqual([
      { name: 'Ann' },
    ])
  })

  it('is not rebuilt by a run that changes no form', async () => {
    service.records.forms.push(
      form('g', 'Questions', QUESTIONS),
      form('h', 'Questions', []),
      form('i', '', QUESTIONS),
      // By their names, not by their ids, the first one comes first.
      form('of z', 'Resume', QUESTIONS),
      form('of y', 'Résumé', QUESTIONS),
    )
    await run('backfill')
    const made = `select view_name, subject_id, made_at from intake_raw.wide_views where kind = 'form' order by 1`
    const before = await rows(made)
    // form_questions is a table.
    expect(before.map(({ view_name, subject_id }) => `${view_name}: ${subject_id}`)).toEqual([
      'form: i',
      'form_intake_ete: f',
      'form_questions_2: g',
      'form_resume: of z',
      'form_resume_2: of y',
    ])
    expect(await rows(`select obj_description('intake.form'::regclass) as nameless`)).toEqual([
      { nameless: 'One row a response to the form without a name, one column a question.' },
    ])
    const answers = ANSWERS.answers.slice(0, -1)
    service.records.responses.push(response('r4', 'g', { ...ANSWERS, answers }))
    await run('backfill')
    expect(await rows(made)).toEqual(before)
    expect(await rows('select name from intake.form_questions_2')).toEqual([{ name: 'Ann' }])
  })

  it('gets questions that only later answers show: a former question, and a repeated one', async () => {
    const before = await columns('intake.form_questions_2')
    const left = said('left over', 'x', 'What was asked before')
    const answers = [left, said('about one', 'y', 'How is Ann?'), said('q3', '80'), said('q3', '81')]
    service.records.responses.push(response('r5', 'g', { answers }))
    service.records.responses.push(response('r6', 'g', { patient: { id: 'q' }, answers: [left] }))
    service.records.responses.push(response('of no form', 'g', { form: null, answers: [left] }))
    await run('backfill')
    expect(await columns('intake.form_questions_2')).toEqual([
      ...before,
      'weight_kg_all numeric[]',
      // A text that only one patient was asked may be about them, and column names are visible to everybody.
      'question_2 text',
      'what_was_asked_before text',
    ])
    expect(
      await rows(`select question_text from intake.form_columns where column_name = 'question_2'`),
    ).toEqual([{ question_text: null }])
    expect(await rows(`select description from pg_description where description like '%Ann%'`)).toEqual([])
    expect(
      await rows(`select weight_kg, weight_kg_all, what_was_asked_before as before
        from intake.form_questions_2 where response_id = 'r5'`),
    ).toEqual([{ weight_kg: '80', weight_kg_all: [80, 81], before: 'x' }])
  })

  it('gets such questions too after a replay, a write during a search, and a restore on a server whose transaction ids are lower', async () => {
    const known = 'select form_id, question_id from intake_raw.answered_questions order by 1, 2'
    const before = await rows(known)
    const follow = async () => {
      await rows('delete from intake_raw.answered_questions')
      await run('backfill')
      return await rows(known)
    }
    // Open transactions of other databases of the server have changes read once more.
    const followsNone = () => expect.poll(follow, { timeout: 60_000 }).toEqual([])
    await followsNone()
    await rows(`update intake.response_answers set value_text = 'wrong'`)
    await run('replay')
    expect(await follow()).toEqual(before)
    const writer = await connect(warehouse.url)
    try {
      await writer.query('begin')
      await writer.query(`update intake_raw.records set change_seq = default where stream = 'responses'`)
      await followsNone()
      await writer.query('commit')
    } finally {
      await writer.end()
    }
    expect(await follow()).toEqual(before)
    await rows('update intake_raw.answers_read set oldest = oldest + 1000000')
    expect(await follow()).toEqual(before)
  })

  it('is created once by two concurrent runs, and without a view that cannot be created', async () => {
    service.records.forms.push(form('j', 'Made twice', QUESTIONS), form('k', 'Broken', QUESTIONS))
    await run('backfill', '--streams', 'forms')
    await rows('drop view intake.form_made_twice; drop view intake.form_broken')
    await rows(
      `delete from intake_raw.wide_views where kind = 'form' and view_name in ('form_made_twice', 'form_broken')`,
    )
    // Another table has the name.
    await rows(`insert into intake_raw.wide_views values (1, 'form', 'k', 'form_broken', '')`)
    await rows('create table intake.form_broken (mine int)')
    const both = await Promise.all([1, 2].map(() => runCommand(['migrate'], { DATABASE_URL: warehouse.url })))
    for (const { code, stderr } of both) {
      expect(code).toBe(0)
      expect(stderr).toContain('note: the wide views are not up to date (SQLSTATE 42809)')
    }
    const made = `select relname from pg_class where relname ~ '^form_(made|broken)' and relkind = 'v' and relnamespace = 'intake'::regnamespace order by 1`
    expect(await rows(made)).toEqual([{ relname: 'form_made_twice' }])
    await rows('drop table intake.form_broken')
    await run('backfill')
    expect(await rows(made)).toEqual([{ relname: 'form_broken' }, { relname: 'form_made_twice' }])
  })

  it('does not wait for long reads: a later run rebuilds it', async () => {
    const before = await columns('intake.form_questions_2')
    const form_ = service.records.forms.findIndex(({ id }) => id === 'g')
    const more = { id: 'q99', type: 'number', text: 'Added while somebody reads' }
    service.records.forms[form_] = form('g', 'Questions', [...QUESTIONS, more])
    const reader = await connect(warehouse.url)
    try {
      await reader.query('begin')
      await reader.query('select from intake.form_questions_2')
      const env = { ...service.env, DATABASE_URL: warehouse.url }
      const { code, stderr } = await runCommand(['backfill'], env)
      expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining('(SQLSTATE 55P03)') })
      expect(await columns('intake.form_questions_2')).toEqual(before)
    } finally {
      await reader.end()
    }
    await run('backfill')
    expect(await columns('intake.form_questions_2')).toEqual([
      ...before,
      'added_while_somebody_reads numeric',
    ])
  })

  it('has the first value of a question and all in their order, of its own form and response', async () => {
    const asked = (id: string, type: string) => ({ id, type, text: `Ordered ${id}` })
    const kinds = {
      n: 'number',
      t: 'checkbox',
      d: 'date',
      x: 'short_text',
      c: 'single_choice',
      k: 'matrix',
      f: 'file',
      s: 'signature',
    }
    const questions = Object.entries(kinds).map(([id, type]) => asked(id, type))
    service.records.forms.push(form('o', 'Ordered', questions), form('other', 'Other order', questions))
    const given = (id: string, ...values: string[]) => values.map((value) => said(id, value, `Ordered ${id}`))
    const cell = (place: string, text: string | undefined, answer_text: string) => ({
      question: { id: 'k', text: 'Ordered k' },
      row: { id: `row ${place}`, text },
      column: { id: `column ${place}`, text },
      answer_text,
    })
    const once = [
      ...given('n', '1'),
      ...given('t', 'true'),
      ...given('d', '2001-02-03'),
      ...given('x', 'one'),
      { question: { id: 'c', text: 'Ordered c' }, answer_choices: ['First', 'Second'] },
    ]
    service.records.responses.push(
      response('o1', 'o', { answers: once, is_submitted: false }),
      response('o3', 'other', { answers: once, files: [{ id: 'a', question: { id: 'f' }, name: 'other' }] }),
    )
    await run('backfill')
    service.records.responses.push(
      response('o2', 'o', {
        answers: [
          ...[
            given('n', '3', 'none', '2'),
            given('t', 'false', 'true'),
            given('d', '2002-01-01', '2003-01-01'),
          ],
          given('x', '', 'two', 'one'),
        ].flat(),
        matrix_cells: [cell('b', 'B', 'first'), cell('a', undefined, 'second'), cell('c', 'C', '2001-02-03')],
        files: ['z.png', 'a.png'].map((name) => ({ id: name, question: { id: 'f' }, name })),
        e_signatures: ['03', '02'].map((day) => ({
          ...{ id: day, question: { id: 's' }, signer_name: '', signed_at: `2026-01-${day}T00:00:00Z` },
        })),
      }),
    )
    await run('backfill')
    for (const id of ['d', 'x', 'k']) await run('classify', 'set', id, 'visible', '--form', 'Ordered')
    const cells = [
      { row: 'B', column: 'B', value: 'first' },
      { row: 'row a', column: 'column a', value: 'second' },
    ]
    const day = (text: string) =>
      expect.toSatisfy((at) =>
        new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().startsWith(text),
      )
    expect(await rows('select * from intake.form_ordered order by response_id')).toMatchObject([
      {
        response_id: 'o1',
        ordered_n: '1',
        ordered_t: true,
        ordered_x: 'one',
        ordered_c: 'First',
        ordered_f: null,
        ordered_s: null,
        ordered_k: null,
      },
      {
        ...{
          response_id: 'o2',
          ordered_n: '3',
          ordered_n_all: [3, null, 2],
          ordered_t: false,
          ordered_t_all: [false, true],
        },
        ...{ ordered_d: day('2002-01-01'), ordered_d_all: [day('2002-01-01'), day('2003-01-01')] },
        ...{ ordered_x: '', ordered_x_all: ['', 'two', 'one'], ordered_f: ['z.png', 'a.png'] },
        ...{
          ordered_s: new Date('2026-01-02T00:00:00Z'),
          ordered_k: [...cells, { row: 'C', column: 'C', value: '2001-02-03' }],
        },
      },
    ])
    const analyst = await makeLogin(warehouse.url, 'intake_analyst')
    expect(await analyst.rows('select * from intake_forms.form_ordered order by response_id')).toMatchObject([
      {
        response_id: 'o1',
        is_submitted: false,
        ordered_n: '1',
        ordered_t: true,
        ordered_d: 2001,
        ordered_x: 'one',
        ordered_f: false,
        ordered_s: false,
        ordered_k: null,
      },
      {
        ...{
          response_id: 'o2',
          ordered_n: '3',
          ordered_n_all: [3, 2],
          ordered_t: false,
          ordered_t_all: [false, true],
        },
        ...{
          ordered_d: 2002,
          ordered_x: '',
          ordered_x_all: ['', 'two', 'one'],
          ordered_f: true,
          ordered_s: true,
        },
        ordered_k: [...cells, { row: 'C', column: 'C', value: '2001' }],
      },
    ])
  })

  it('has all choices of a question that was answered several times: answer by answer, each in its own order', async () => {
    const questions = [
      { id: 'aids', type: 'multiple_choice', text: 'Aids' },
      { id: 'pets', type: 'multiple_choice', text: 'Pets' },
    ]
    const chosen = (id: string, ...answer_choices: string[]) => ({ question: { id }, answer_choices })
    service.records.forms.push(form('several', 'Several', questions))
    service.records.responses.push(
      response('s1', 'several', {
        answers: [
          chosen('aids', 'Walker', 'Cane', 'Rail'),
          chosen('pets', 'Dog', 'Cat'),
          chosen('aids'),
          chosen('aids', 'Chair', 'Belt'),
        ],
      }),
      response('s2', 'several', { answers: [chosen('aids', 'Bed')] }),
    )
    await run('backfill')
    const expected = [
      { response_id: 's1', aids: ['Walker', 'Cane', 'Rail', 'Chair', 'Belt'], pets: ['Dog', 'Cat'] },
      { response_id: 's2', aids: ['Bed'], pets: null },
    ]
    const values = 'select response_id, aids, pets from'
    expect(await rows(`${values} intake.form_several order by 1`)).toEqual(expected)
    for (const id of ['aids', 'pets']) await run('classify', 'set', id, 'visible', '--form', 'Several')
    const analyst = await makeLogin(warehouse.url, 'intake_analyst')
    expect(await analyst.rows(`${values} intake_forms.form_several order by 1`)).toEqual(expected)
  })

  it('is readable by clinicians of the team, and by no analyst', async () => {
    const clinician = await makeLogin(warehouse.url, 'intake_clinical')
    const analyst = await makeLogin(warehouse.url, 'intake_analyst')
    expect(await clinician.rows('select name from intake.form_questions_2')).toHaveLength(3)
    expect(await analyst.endings(['select from intake.form_questions_2'])).toEqual(['42501'])
    await query(warehouse.url, `insert into intake.teams (name) values ('another')`)
    expect(await clinician.rows('select name from intake.form_questions_2')).toHaveLength(0)
    await query(warehouse.url, `delete from intake.teams where name = 'another'`)
  })
})
