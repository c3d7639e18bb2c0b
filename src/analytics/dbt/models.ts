/**
 * What a dbt package says of the analysts' views beyond their columns: keys, links between them, marts and metrics.
 *
 * Invariant: a key is one column, because dbt's tests take one; where it consists of several, their texts are joined.
 */

export interface Relation {
  /** A view of `intake_analytics`. */
  readonly view: string
  /** What one row is; names the column with its key. */
  readonly row: string
  /** The columns that distinguish its rows; null where nothing does. */
  readonly key: readonly string[] | null
  /** The views whose rows it names, with the columns that make their key. */
  readonly links: readonly { readonly to: string; readonly columns: readonly string[] }[]
}

const TO_RESPONSE = { to: 'responses', columns: ['team_id', 'response_id'] }
const TO_TEAM = { to: 'teams', columns: ['team_id'] }

export const RELATIONS: readonly Relation[] = [
  { view: 'teams', row: 'team', key: ['team_id'], links: [] },
  { view: 'patients', row: 'patient', key: ['patient'], links: [TO_TEAM] },
  { view: 'responses', row: 'response', key: ['team_id', 'response_id'], links: [TO_TEAM] },
  {
    view: 'answers',
    row: 'answer',
    key: ['team_id', 'response_id', 'position', 'value_position'],
    links: [TO_TEAM, TO_RESPONSE],
  },
  {
    view: 'matrix_answers',
    row: 'matrix_answer',
    key: ['team_id', 'response_id', 'position'],
    links: [TO_TEAM, TO_RESPONSE],
  },
  { view: 'questions', row: 'question', key: null, links: [TO_TEAM] },
  { view: 'form_completion', row: 'form', key: ['team_id', 'form_id'], links: [TO_TEAM] },
  { view: 'packet_progress', row: 'packet', key: null, links: [TO_TEAM] },
  { view: 'message_outcomes', row: 'message', key: ['team_id', 'message_id'], links: [TO_TEAM] },
  { view: 'daily_volume', row: 'day', key: null, links: [TO_TEAM] },
  {
    view: 'scores',
    row: 'score',
    key: ['team_id', 'response_id', 'instrument'],
    links: [TO_TEAM, TO_RESPONSE],
  },
  { view: 'freshness', row: 'stream', key: ['team_id', 'stream'], links: [TO_TEAM] },
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
