/** What analysts see of a question that was decided on, reworded, and decided on again: in every column of every view. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { Ended } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { type Login, makeLogin } from './logins.ts'

/** One question of each kind, its answer to the former wording and to the present one. */
const KINDS = [
  { kind: 'short_text', before: 'former words', now: 'present words' },
  { kind: 'number', before: '5551234567', now: '3' },
  { kind: 'checkbox', before: 'true', now: 'true' },
  { kind: 'date', before: '1987-06-05', now: '2001-02-03' },
  { kind: 'single_choice', before: 'Former', now: 'Present' },
  { kind: 'matrix', before: 'former cell', now: 'present cell' },
] as const

/** The decision on the former wording; the present one is visible. */
const FORMS = ['by_type', 'hidden', 'visible'] as const

type FormName = (typeof FORMS)[number]
type Time = 'before' | 'now'

/**
 * Columns that are of the record, the question or the person and not of the answer. Any other column of a view that has rows
 * of answers must be null for an answer to a wording that was not decided on.
 */
const NOT_OF_THE_ANSWER = new Set([
  ...[
    'team_id',
    'response_id',
    'export_id',
    'row_number',
    'position',
    'value_position',
    'patient',
    'form_id',
    'form',
  ],
  ...['question_id', 'question_text', 'question_type', 'concept', 'submitted_at', 'sent_at', 'completed_at'],
  ...[
    'is_archived',
    'is_submitted',
    'is_skipped',
    'created_at',
    'packet',
    'packet_id',
    'document',
    'document_id',
  ],
  // Whether, not what.
  ...['is_shown', 'is_answered', 'is_reworded', 'time_to_submit', 'provider'],
])

const at = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' }
/** Blanks and line ends are a part of what was decided on. */
const wording = (kind: string, time: Time) => (time === 'before' ? `Former ${kind}` : ` Present ${kind} \t`)
const idOf = (form: FormName, kind: string) => `${form} ${kind}`

let service: LittleService
let warehouse: TestDatabase
let analyst: Login
/** What commands say after the questions were reworded. */
let reworded: Ended
let rewordedText: Ended
let status: Ended
let statusText: Ended
let doctor: Ended

const run = async (...words: string[]) => {
  const ended = await runCommand(words, { ...service.env, DATABASE_URL: warehouse.url })
  expect(ended).toMatchObject({ code: 0 })
  return ended
}

const formOf = (form: FormName, time: Time) => ({
  ...{ id: form, name: form, text: '', enabled: true, created_at: at.created_at },
  updated_at: time === 'before' ? at.updated_at : '2026-02-01T00:00:00Z',
  questions: KINDS.map(({ kind }, place) => ({
    ...{ id: idOf(form, kind), text: wording(kind, time), help_text: '', order: place + 1 },
    question_type: { question_type: kind, question_subtype: null },
    choices:
      kind === 'single_choice'
        ? ['Former', 'Present'].map((text_value) => ({ id: `${form} ${text_value}`, text_value }))
        : [],
  })),
})

/** `shows` false: the answers do not contain the texts of their questions. */
const responseOf = (form: FormName, time: Time, shows = true) => ({
  ...{
    id: `${form} ${time}${shows ? '' : ' untold'}`,
    form: { id: form, name: form },
    is_submitted: true,
    ...at,
  },
  ...{ patient: { id: 'p' }, submitted_at: '2026-01-02T00:00:00Z' },
  answers: KINDS.map(({ kind, [time]: answer_text }) => ({
    question: { id: idOf(form, kind), ...(shows ? { text: wording(kind, time) } : {}) },
    ...(kind === 'single_choice'
      ? { answer_choices: [answer_text] }
      : kind === 'matrix'
        ? {}
        : { answer_text }),
  })),
  matrix_cells: [
    {
      ...{
        question: { id: idOf(form, 'matrix') },
        row: { id: 'r', text: 'Row' },
        column: { id: 'c', text: 'Column' },
      },
      answer_text: KINDS.at(-1)![time],
    },
  ],
})

const fileOf = (time: Time) =>
  [
    `Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,${KINDS.map(({ kind }) => `${wording(kind, time)}${kind === 'matrix' ? ' - Row - Column' : ''}`).join()}`,
    `p,,,,2026-01-01 00:00:00,2026-01-02 00:00:00,False,${KINDS.map((each) => each[time]).join()}`,
    '',
  ].join('\n')

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService([{ id: 'p', first_name: 'A', last_name: 'B', ...at }])
  service.interfere = ({ method, url, body }, response) => {
    if (method !== 'POST') return false
    const time = `${url} ${body}`.includes('before') ? 'before' : 'now'
    response.writeHead(200, { 'content-type': 'text/plain' }).end(fileOf(time))
    return true
  }
  const { records } = service
  records.forms.push(...FORMS.map((form) => formOf(form, 'before')))
  await run('backfill')
  for (const { kind } of KINDS) {
    await run('classify', 'set', idOf('hidden', kind), 'hidden')
    await run('classify', 'set', idOf('visible', kind), 'visible')
  }
  records.responses.push(
    ...FORMS.map((form) => responseOf(form, 'before')),
    responseOf('visible', 'before', false),
  )
  for (const form of FORMS) {
    for (const time of ['before', 'now'] as const)
      records.exports.push({
        id: `${form} ${time}`,
        name: `${form} ${time}`,
        form: { id: form, name: form },
        ...at,
      })
  }
  await run('backfill')
  records.forms.splice(0, FORMS.length, ...FORMS.map((form) => formOf(form, 'now')))
  records.responses.push(...FORMS.map((form) => responseOf(form, 'now')))
  reworded = await run('backfill', '--full', '--json')
  rewordedText = await run('backfill', '--streams', 'forms')
  status = await run('status', '--json')
  statusText = await run('status')
  doctor = await runCommand(['doctor', '--json'], { ...service.env, DATABASE_URL: warehouse.url })
  for (const form of FORMS)
    for (const { kind } of KINDS) await run('classify', 'set', idOf(form, kind), 'visible')
  analyst = await makeLogin(warehouse.url, 'intake_analyst')
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

type Row = Readonly<Record<string, unknown>>

/** All rows of all views, by view. */
async function rowsOfViews(): Promise<ReadonlyMap<string, readonly Row[]>> {
  const views = await analyst.rows<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('intake_analytics', 'intake_exports', 'intake_forms') and c.relkind in ('v', 'm', 'r') order by 1`,
  )
  const rows = new Map<string, readonly Row[]>()
  for (const { name } of views) {
    const found = await analyst.rows<{ row: Row }>(`select to_jsonb(x) as row from ${name} x`)
    rows.set(
      name,
      found.map(({ row }) => row),
    )
  }
  return rows
}

/** The response or export that a row of answers is of; null for a row of anything else. */
function sourceOf(view: string, row: Row): { form: FormName; time: Time } | null {
  const wide = /\.export_(by_type|hidden|visible)_(before|now)$/.exec(view)
  const id = wide === null ? String(row.response_id ?? row.export_id ?? '') : `${wide[1]} ${wide[2]}`
  const [, form, time] = /^(by_type|hidden|visible) (before|now)/.exec(id) ?? []
  return form === undefined ? null : { form: form as FormName, time: time as Time }
}

/** The columns, by view, that show something of an answer in a row that `chosen` accepts. */
async function shownColumns(chosen: (form: FormName, time: Time) => boolean): Promise<readonly string[]> {
  const shown = new Set<string>()
  for (const [view, rows] of await rowsOfViews()) {
    for (const row of rows) {
      const source = sourceOf(view, row)
      if (source === null || !chosen(source.form, source.time)) continue
      for (const [column, value] of Object.entries(row)) {
        if (NOT_OF_THE_ANSWER.has(column) || value === null) continue
        shown.add(`${view.replace(/_(by_type|hidden|visible)(_(before|now))?$/, '')} ${column}`)
      }
    }
  }
  return [...shown].sort()
}

describe('after questions were reworded', () => {
  // Those that the type or a person showed, and numbers, ticks and choices that a person hid.
  const waiting = [
    ...['checkbox', 'number', 'single_choice'].map((kind) => idOf('by_type', kind)),
    ...['checkbox', 'number', 'single_choice'].map((kind) => idOf('hidden', kind)),
    ...KINDS.map(({ kind }) => idOf('visible', kind)),
  ].sort()

  it('the summary of backfill, status and doctor name those that wait for a decision', () => {
    const ids = (questions: readonly { question_id: string }[]) =>
      questions.map(({ question_id }) => question_id).sort()
    const { teams } = JSON.parse(reworded.stdout)
    expect(ids(teams.default.questions_waiting)).toEqual(waiting)
    expect(ids(JSON.parse(status.stdout).teams[0].questions_waiting)).toEqual(waiting)
    const said =
      /12 reworded question\(s\) wait for a decision: by_type number of form by_type, .*, and 7 more/
    expect(statusText.stdout).toMatch(said)
    expect(rewordedText.stdout).toMatch(said)
    const { checks } = JSON.parse(doctor.stdout)
    expect(checks.find(({ name }: { name: string }) => name === 'questions')).toMatchObject({
      status: 'warning',
      detail: expect.stringMatching(said),
      hint: expect.stringContaining('classify list --waiting'),
    })
  })
})

describe('after a question was decided on, reworded and decided on again', () => {
  it('columns of exports whose titles are no text of the form any more belong to no question', async () => {
    const columns = `select distinct question_id is null as unmatched from intake.export_columns where export_id like $1`
    expect(await query(warehouse.url, columns, ['% before'])).toEqual([{ unmatched: true }])
    expect(await query(warehouse.url, columns, ['% now'])).toEqual([{ unmatched: false }])
    // A file and a form that are loaded at the same time leave this, until the next run.
    await query(
      warehouse.url,
      `update intake.export_columns stale set question_id = now.question_id
       from intake.export_columns now
       where stale.export_id like '% before' and now.position = stale.position
         and now.export_id = replace(stale.export_id, 'before', 'now')`,
    )
    expect(await query(warehouse.url, columns, ['% before'])).toEqual([{ unmatched: false }])
  })

  it('every column of every view that shows answers shows those to the present wording', async () => {
    const shown = await shownColumns((_, time) => time === 'now')
    for (const view of ['answers', 'export_answers']) {
      for (const column of ['choice', 'value_number', 'value_boolean', 'value_year', 'value_text'])
        expect(shown).toContain(`intake_analytics.${view} ${column}`)
    }
    for (const column of ['row_text', 'column_text', 'value_text'])
      expect(shown).toContain(`intake_analytics.matrix_answers ${column}`)
    // Each column of a view of answers is among them: none is untested below.
    for (const [view, rows] of await rowsOfViews()) {
      const name = view.replace(/_(by_type|hidden|visible)(_(before|now))?$/, '')
      if (!rows.some((row) => sourceOf(view, row)?.time === 'now') || /\.responses$/.test(view)) continue
      for (const column of Object.keys(rows[0]!).filter(
        (each) => !NOT_OF_THE_ANSWER.has(each) && each !== 'value_year',
      ))
        expect(shown, view).toContain(`${name} ${column}`)
    }
  })

  it('no column of any view shows an answer to a wording that a person hid', async () => {
    expect(await shownColumns((form, time) => form === 'hidden' && time === 'before')).toEqual([])
  })

  it('none but the choices of the form shows an answer to a wording that was shown by its type', async () => {
    expect(await shownColumns((form, time) => form === 'by_type' && time === 'before')).toEqual([
      'intake_analytics.answers choice',
      'intake_analytics.export_answers choice',
      'intake_exports.export former_single_choice',
      'intake_forms.form former_single_choice',
    ])
  })

  it('all show an answer to a wording that a person made visible', async () => {
    const shown = await shownColumns((form, time) => form === 'visible' && time === 'before')
    for (const view of ['answers', 'export_answers']) {
      for (const column of ['choice', 'value_number', 'value_boolean', 'value_year', 'value_text'])
        expect(shown).toContain(`intake_analytics.${view} ${column}`)
    }
    expect(shown).toContain('intake_analytics.matrix_answers value_text')
  })

  it('none shows an answer that does not say which wording it answers, but the choices of the form', async () => {
    const rows = await analyst.rows<Row>(
      `select distinct choice, value_number, value_boolean, value_year, value_text from intake_analytics.answers
       where response_id = 'visible before untold' and choice is null`,
    )
    expect(rows).toEqual([
      { choice: null, value_number: null, value_boolean: null, value_year: null, value_text: null },
    ])
    const cells = `select value_text from intake_analytics.matrix_answers where response_id = 'visible before untold'`
    expect(await analyst.rows(cells)).toEqual([{ value_text: null }])
  })

  it('no view contains the values anywhere else', async () => {
    for (const [view, rows] of await rowsOfViews()) {
      for (const row of rows) {
        if (sourceOf(view, row)?.form === 'visible') continue
        const texts = JSON.stringify(row).replace(/"seq":\d+/, '')
        expect(texts, view).not.toMatch(/former (words|cell)/)
        // As whole numbers: parts of seconds, of times and of intervals, and hashes have any digits.
        expect(texts, view).not.toMatch(/(?<![\w.+-])(5551234567|1987)(?![\w.:])/)
      }
    }
    const [most] = await analyst.rows(
      `select max(value_number) as most from intake_analytics.answers where form_id <> 'visible'`,
    )
    expect(most).toEqual({ most: '3' })
  })
})
