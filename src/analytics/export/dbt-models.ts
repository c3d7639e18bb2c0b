/**
 * The parts of a dbt package beyond the columns of the analysts' views: keys, links between them, marts and metrics.
 *
 * Invariant: a key is one column, because dbt's tests take one; where it consists of several, their texts are joined.
 */

export interface Relation {
  /** A view of `intake_analytics`. */
  readonly view: string
  /** What one row is; names the column with its key. */
  readonly row: string
  readonly key: Key
  /** The views whose rows it names. */
  readonly links: readonly Link[]
}

export interface Key {
  /** Columns, or expressions over them, that together distinguish the rows. */
  readonly of: readonly string[]
  /** Some rows have none: one of its parts is null. */
  readonly isPartial?: true
}

export interface Link {
  readonly to: string
  /** Its columns with the key of the other view. */
  readonly columns: readonly string[]
  /**
   * `always`: every row names one, and it is there. `if set`: one that is named is there. `later`: one that is named may
   * be missing, because a record can arrive before the one that it names, or stay after it was deleted: dbt warns.
   */
  readonly holds: 'always' | 'if set' | 'later'
}

const TEAM: Link = { to: 'teams', columns: ['team_id'], holds: 'always' }
const RESPONSE: Link = { to: 'responses', columns: ['team_id', 'response_id'], holds: 'always' }
const PATIENT: Link = { to: 'patients', columns: ['patient'], holds: 'later' }
const FORM: Link = { to: 'form_completion', columns: ['team_id', 'form_id'], holds: 'if set' }
const QUESTION: Link = { to: 'questions', columns: ['team_id', 'form_id', 'question_id'], holds: 'if set' }

export const RELATIONS: readonly Relation[] = [
  { view: 'teams', row: 'team', key: { of: ['team_id'] }, links: [] },
  { view: 'patients', row: 'patient', key: { of: ['patient'] }, links: [TEAM] },
  { view: 'form_completion', row: 'form', key: { of: ['team_id', 'form_id'] }, links: [TEAM] },
  {
    view: 'questions',
    row: 'question',
    key: { of: ['team_id', 'form_id', 'question_id'] },
    // A form without a response is not in form_completion.
    links: [TEAM, { ...FORM, holds: 'later' }],
  },
  {
    view: 'choices',
    row: 'choice',
    key: { of: ['team_id', 'form_id', 'question_id', 'position'] },
    links: [TEAM, { ...QUESTION, holds: 'always' }],
  },
  {
    view: 'responses',
    row: 'response',
    key: { of: ['team_id', 'response_id'] },
    links: [TEAM, PATIENT, FORM],
  },
  {
    view: 'answers',
    row: 'answer',
    key: { of: ['team_id', 'response_id', 'position', 'value_position'] },
    links: [TEAM, RESPONSE, PATIENT, FORM, QUESTION],
  },
  {
    view: 'matrix_answers',
    row: 'matrix_answer',
    key: { of: ['team_id', 'response_id', 'position'] },
    links: [TEAM, RESPONSE, PATIENT, FORM, QUESTION],
  },
  {
    view: 'packet_progress',
    row: 'packet',
    // One that no webhook reported has no id.
    key: { of: ['team_id', 'packet_response_id'], isPartial: true },
    links: [TEAM, PATIENT],
  },
  {
    view: 'message_outcomes',
    row: 'message',
    key: { of: ['team_id', 'message_id'] },
    links: [TEAM, PATIENT, { ...RESPONSE, holds: 'if set' }, { ...FORM, holds: 'later' }],
  },
  {
    view: 'daily_volume',
    row: 'day',
    // Packets and documents are counted without a form.
    key: { of: ['team_id', 'day', "coalesce(form_id, '')"] },
    links: [TEAM, { ...FORM, holds: 'later' }],
  },
  {
    view: 'scores',
    row: 'score',
    key: { of: ['team_id', 'response_id', 'instrument'] },
    links: [TEAM, RESPONSE, PATIENT, FORM],
  },
  {
    view: 'export_answers',
    row: 'export_answer',
    key: { of: ['team_id', 'export_id', 'row_number', 'position'] },
    // A file may name patients who are not in the warehouse.
    links: [TEAM, PATIENT, { ...RESPONSE, holds: 'if set' }, QUESTION],
  },
  { view: 'freshness', row: 'stream', key: { of: ['team_id', 'stream'] }, links: [TEAM] },
]

export interface Mart {
  readonly name: string
  readonly about: string
  /** The view whose columns it has. */
  readonly of: string
  /** Joined to it as `joined`, with its condition. */
  readonly join?: string
  readonly extra: readonly { readonly name: string; readonly about: string; readonly sql: string }[]
}

export const MARTS: readonly Mart[] = [
  {
    name: 'patients',
    about: 'One row per patient, with the responses requested and submitted.',
    of: 'patients',
    join: `left join (
  select patient, count(*) as requested, count(*) filter (where is_submitted and is_skipped is not true) as submitted,
    min(created_at) as first_requested_at, max(submitted_at) as last_submitted_at
  from {{ ref('stg_intake__responses') }}
  group by patient
) joined on joined.patient = model.patient`,
    extra: [
      { name: 'responses_requested', about: 'Responses requested.', sql: 'coalesce(joined.requested, 0)' },
      {
        name: 'responses_submitted',
        about: 'Responses submitted, without skipped ones.',
        sql: 'coalesce(joined.submitted, 0)',
      },
      {
        name: 'first_requested_at',
        about: 'When the first response was requested.',
        sql: 'joined.first_requested_at',
      },
      {
        name: 'last_submitted_at',
        about: 'When the last response was submitted.',
        sql: 'joined.last_submitted_at',
      },
    ],
  },
  {
    name: 'forms',
    about: 'One row per form, with the course of its responses.',
    of: 'form_completion',
    extra: [],
  },
  {
    name: 'responses',
    about: 'One row per response, with the number of its questions and answers.',
    of: 'responses',
    join: `left join (
  select response_key, count(distinct position) as questions,
    count(distinct position) filter (where is_answered) as answered
  from {{ ref('stg_intake__answers') }}
  group by response_key
) joined on joined.response_key = model.response_key`,
    extra: [
      { name: 'questions', about: 'Questions in the response.', sql: 'coalesce(joined.questions, 0)' },
      { name: 'questions_answered', about: 'Questions answered.', sql: 'coalesce(joined.answered, 0)' },
      {
        name: 'hours_to_submit',
        about: 'Hours from the request to the submission.',
        sql: 'extract(epoch from model.time_to_submit) / 3600',
      },
    ],
  },
  { name: 'answers', about: 'One row per value of an answer.', of: 'answers', extra: [] },
  { name: 'packets', about: 'One row per packet sent to a patient.', of: 'packet_progress', extra: [] },
  {
    name: 'messages',
    about: 'One row per message, with its outcome.',
    of: 'message_outcomes',
    extra: [
      {
        name: 'hours_to_answer',
        about: 'Hours from sending to submission.',
        sql: 'extract(epoch from model.time_to_answer) / 3600',
      },
    ],
  },
  { name: 'scores', about: 'One row per submitted response and instrument.', of: 'scores', extra: [] },
  {
    name: 'days',
    about: 'One row per day and form: responses requested and submitted, messages sent.',
    of: 'daily_volume',
    extra: [],
  },
]

/** Measures of the mart `responses`, by the day on which a response was requested. */
export const MEASURES = [
  { name: 'responses_requested', about: 'Responses requested.', expr: '1' },
  {
    name: 'responses_submitted',
    about: 'Responses submitted, without skipped ones.',
    expr: 'case when is_submitted and is_skipped is not true then 1 else 0 end',
  },
] as const

export const EXPOSURES = {
  exposures: [
    {
      name: 'intake_operations',
      label: 'Intake operations',
      type: 'dashboard',
      maturity: 'medium',
      description: 'Completion of forms and packets, and outcomes of messages.',
      depends_on: ['forms', 'packets', 'messages', 'days'].map((mart) => `ref('intake_${mart}')`),
      owner: { name: 'Operations', email: 'operations@example.com' },
    },
  ],
}

export const TIME_SPINE = `select day::date as date_day
from generate_series(timestamp '2000-01-01', timestamp '2049-12-31', interval '1 day') as day
`

/** A nightly backfill is late after 26 hours. */
export const FRESHNESS = {
  config: {
    loaded_at_field: 'last_run_at',
    freshness: { warn_after: { count: 26, period: 'hour' }, error_after: { count: 50, period: 'hour' } },
  },
}
