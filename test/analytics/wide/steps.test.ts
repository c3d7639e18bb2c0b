/** How wide views are made: one after another, in turns, with their comments and grants; and what a failure stops. */
import pg from 'pg'
import { beforeEach, expect, test, vi } from 'vitest'
import type { AskedQuestion, WideColumn } from '../../../src/analytics/wide/wide-columns.ts'
import type { Subject } from '../../../src/analytics/wide/wide-questions.ts'
import { refreshWideViews } from '../../../src/analytics/wide/wide-views.ts'
import { scripted } from '../../support/scripted.ts'

const fresh = () => ({
  steps: [] as string[],
  changed: [] as Subject[],
  questions: [] as AskedQuestion[],
  /** Columns that a view has already. */
  known: [] as WideColumn[],
  /** Names of views, by the id of their subject, as another process has made them. */
  views: {} as Record<string, string>,
  /** Failures of the views of subjects. */
  failing: {} as Record<string, unknown>,
  roles: ['intake_loader', 'intake_clinical', 'intake_analyst'],
  taken: [] as string[],
  isOlder: false,
  /** Columns that a view has to begin with, or is older. */
  columns: [] as readonly string[],
  /** Statements that the server log does not show. */
  unseen: [] as string[],
})
const world = vi.hoisted(() => ({}) as ReturnType<typeof fresh>)
beforeEach(() => void Object.assign(world, fresh()))

vi.mock('../../../src/warehouse/locks.ts', async (original) => ({
  ...(await original<object>()),
  lockAlone: async (_: unknown, kind: string, name: string) => world.steps.push(`lock ${kind} ${name}`),
}))
vi.mock('../../../src/analytics/wide/wide-questions.ts', async (original) => ({
  ...(await original<object>()),
  followAnswers: async () => world.steps.push('answers'),
  changedSubjects: async () => world.changed,
  questionsOf: async (_: unknown, { subject_id }: Subject) => {
    world.steps.push(`questions ${subject_id}`)
    if (subject_id in world.failing) throw world.failing[subject_id]
    return world.questions
  },
}))

/** What each statement is called in `steps`, by its beginning. */
const NAMES: Readonly<Record<string, string>> = {
  'insert into intake_raw.wide_views': 'view',
  'insert into intake_raw.wide_columns': 'columns',
  'drop view': 'drop',
  'do $$': 'run',
}

const db = scripted((statement, parameters) => {
  if (/^(begin|commit|rollback|set local)/.test(statement)) world.steps.push(statement)
  const name = Object.keys(NAMES).find((each) => statement.startsWith(each))
  if (name !== undefined) world.steps.push(NAMES[name]!)
  if (statement.startsWith('select set_config')) world.unseen.push(String(parameters[0]))
  if (statement.startsWith('select view_name')) {
    const view_name = world.views[String(parameters[2])]
    return view_name === undefined ? [] : [{ view_name }]
  }
  if (statement.startsWith('select place, column_name')) return world.known
  if (statement.includes('pg_get_keywords')) return [{ word: 'order' }]
  if (statement.includes('from pg_roles')) return world.roles.map((rolname) => ({ rolname }))
  if (statement.includes('relname as name')) return world.taken.map((name) => ({ name }))
  if (!statement.includes('as older')) return []
  world.columns = parameters[0] as readonly string[]
  return [{ older: world.isOlder }]
})

const subject = (subject_id: string, more: Partial<Subject> = {}): Subject => ({
  ...{ kind: 'form', team_id: 1, subject_id, name: `Of ${subject_id}`, view_name: null, signature: 's' },
  ...more,
})
const question = (question_id: string, question_text: string | null): AskedQuestion => ({
  ...{ question_id, question_text, question_type: 'number', kind: 'number', repeats: false, is_asked: true },
})

const made = (id: string) => [
  ...['begin', 'lock wideViews wide views', `set local lock_timeout = '2s'`, 'view'],
  ...[`questions ${id}`, 'columns', 'run', 'commit'],
]
const failed = (id: string) => [...made(id).slice(0, 5), 'rollback']

test('without a change, nothing is made', async () => {
  expect(await refreshWideViews(db)).toEqual([])
  expect(world.steps).toEqual(['answers'])
})

test('each view is made in a transaction of its own, in its schema, by a name that is free', async () => {
  world.changed = [
    subject('f'),
    subject('f', { kind: 'shown' }),
    subject('e', { kind: 'export' }),
    subject('nameless', { name: null }),
    subject('again', { view_name: 'form_again' }),
  ]
  world.taken = ['form_of_f', 'export_of_e', 'export_of_e_2']
  world.views = { again: 'form_again' }
  expect(await refreshWideViews(db)).toEqual([
    ...['intake.form_of_f_2', 'intake_forms.form_of_f_2', 'intake_exports.export_of_e_3'],
    ...['intake.form', 'intake.form_again'],
  ])
  expect(world.steps).toEqual(['answers', ...['f', 'f', 'e', 'nameless', 'again'].flatMap((id) => made(id))])
})

test('a view that another process made meanwhile is left as it is; one with other columns is dropped before', async () => {
  world.changed = [subject('theirs'), subject('renamed', { view_name: 'form_old' }), subject('ours')]
  world.views = { theirs: 'form_theirs', renamed: 'form_new' }
  world.isOlder = true
  expect(await refreshWideViews(db)).toEqual(['intake.form_of_ours'])
  const left = [...made('').slice(0, 3), 'commit']
  const [own] = [made('ours')]
  expect(world.steps).toEqual(['answers', ...left, ...left, ...own.slice(0, 6), 'drop', ...own.slice(6)])
})

const state = (code: string) => Object.assign(new pg.DatabaseError(code, 0, 'error'), { code })

test('a view that fails does not stop the others, and the first failure is thrown at the end', async () => {
  world.changed = ['a', 'b', 'c', 'd'].map((id) => subject(id))
  world.failing = { a: state('55P03'), c: state('57014') }
  await expect(refreshWideViews(db)).rejects.toMatchObject({ code: '55P03' })
  expect(world.steps).toEqual(['answers', ...failed('a'), ...made('b'), ...failed('c'), ...made('d')])
})

test.each([
  ['a right that is missing', state('42501')],
  ['a fault of ours', new TypeError('ours')],
])('%s stops at the first view: no other could be made', async (_, failure) => {
  world.changed = ['a', 'b', 'c'].map((id) => subject(id))
  world.failing = { b: failure }
  await expect(refreshWideViews(db)).rejects.toBe(failure)
  expect(world.steps).toEqual(['answers', ...made('a'), ...failed('b')])
})

const saidOf = async (own: Subject) => {
  world.changed = [own]
  await refreshWideViews(db)
  const [, ...rest] = world.unseen.at(-1)!.split('; ')
  return {
    comments: rest.filter((each) => /^comment on (view|column \S+"(q_|weight|question|order))/.test(each)),
    grants: rest.filter((each) => each.startsWith('grant')),
    count: rest.filter((each) => /^(comment on|grant) /.test(each)).length,
  }
}

test('a view says what it is of, and each column which question; readers are those of its kind that exist', async () => {
  world.questions = [
    question('q1', 'Weight'),
    question('q2', ''),
    question('q3', null),
    question('q4', 'Order'),
  ]
  const column = (view: string, name: string, text: string) =>
    `comment on column ${view}."${name}" is '${text}'`
  const columns = (view: string) => [
    column(view, 'weight', 'Weight'),
    column(view, 'question', 'Question q2.'),
    column(view, 'question_2', 'Question q3.'),
    // A word that would need quotes.
    column(view, 'order_2', 'Order'),
  ]
  const grant = (view: string, role: string) => `grant select on ${view} to "${role}"`
  const form = '"intake"."form_of_f"'
  expect(await saidOf(subject('f'))).toEqual({
    comments: [
      `comment on view ${form} is 'One row a response to the form Of f, one column a question.'`,
      ...columns(form),
    ],
    grants: ['intake_loader', 'intake_clinical'].map((role) => grant(form, role)),
    count: 1 + 9 + 4 + 2,
  })
  const shown = '"intake_forms"."form"'
  expect(await saidOf(subject('f', { kind: 'shown', name: '' }))).toEqual({
    comments: [
      `comment on view ${shown} is 'One row a response to the form without a name, one column a question.'`,
      ...columns(shown),
    ],
    grants: ['intake_loader', 'intake_clinical', 'intake_analyst'].map((role) => grant(shown, role)),
    count: 1 + 9 + 4 + 3,
  })
  world.roles = ['intake_analyst']
  const exported = '"intake_exports"."export"'
  expect(await saidOf(subject('e', { kind: 'export', name: null }))).toEqual({
    comments: [
      `comment on view ${exported} is 'One row of the export without a name, one column a question.'`,
      ...columns(exported),
    ],
    grants: [grant(exported, 'intake_analyst')],
    count: 1 + 7 + 4 + 1,
  })
})

test.each([
  ['that of the question that had the name before', 'q1', 'response_id', ['q1']],
  ['that of the response, even where a question has it as its id', 'response_id', 'weight', ['response']],
])(
  'in the view of an export, the only column response_id is %s',
  async (_, question_id, column_name, expected) => {
    world.questions = [question(question_id, 'Weight')]
    const type = {
      data_type: 'numeric',
      is_array: false,
      question_text: 'Weight',
      question_type: 'number',
    } as const
    world.known = [{ place: 1, column_name, question_id, ...type }]
    world.changed = [subject('e', { kind: 'export' })]
    expect(await refreshWideViews(db)).toEqual(['intake_exports.export_of_e'])
    const [view] = world.unseen.at(-1)!.split('; ')
    const named = view!.matchAll(
      /min\(e\.(\w+)\)(?: filter \(where e\.question_id = '(\w+)'\))? as "?response_id\b/g,
    )
    expect([...named].map(([, value, of]) => of ?? value!.replace('_id', ''))).toEqual(expected)
    // The view that it was, with that column in the place that it had, is not older.
    const others = ['team_id', 'row_number', 'patient', 'sent_at', 'completed_at', 'is_archived']
    expect(world.columns).toEqual(
      column_name === 'response_id' ? [...others, column_name] : [...others, 'response_id', column_name],
    )
    expect(world.unseen.at(-1)!.match(/comment on column \S+\."response_id" /g)).toHaveLength(1)
  },
)
