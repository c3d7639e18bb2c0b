/**
 * The rules of the tiers for readers: what each column of a view may contain, and which columns have values that people
 * share.
 *
 * Invariant: a column that no rule names counts as a broken rule. A rule calls no function of the views, since it would
 * repeat their mistakes.
 */

export const MIN_PEOPLE = 11

export const DESCRIPTION = ['age_band', 'birth_year', 'sex_at_birth', 'state', 'zip3']

/** Areas of 20,000 people or fewer: a copy of the list in the view, so that a slip there is found. */
const SMALL_AREAS = '036 059 063 102 203 556 692 790 821 823 830 831 878 879 884 890 893'.split(' ')

export interface Rule {
  readonly rule: string
  readonly columns: RegExp
  /** What breaks it, of a value `v` that is not null; `own` is its row. */
  readonly breaks: string
}

const THIS_YEAR = `extract(year from now() at time zone 'UTC')`

/** A question that somebody decided on for researchers. */
const decided = (...shows: readonly string[]) =>
  `(own).question_text in (
    select q.text from intake.form_questions q join intake_ops.research_questions d using (team_id, form_id, question_id)
    where d.shows in (${shows.map((each) => `'${each}'`).join()}))`

const ASKS_AGE = `((own).question_text ~* '(^|[^a-z])(ages?|aged|old|older|edad|alter|âge|età|idade|leeftijd)([^a-z]|$)' or ${decided('age')})`

/** Years since a response was submitted, or a row completed; 0 where that is not shown. */
const YEARS_SINCE = `(${THIS_YEAR} - coalesce(to_jsonb(own) ->> 'submitted_year', to_jsonb(own) ->> 'completed_year', ${THIS_YEAR}::text)::int)`

const IDENTIFIES = `v::text ~* '[a-z0-9._-]+@[a-z0-9-]+[.][a-z]' or v::text ~ '(^|[^0-9-])[0-9]{3}-[0-9]{2}-[0-9]{4}([^0-9-]|$)'`

/** What somebody may decide to show. */
const LOCATES = `v ~ '(^|[^0-9])[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}([^0-9]|$)' or v ~ '(^|[^0-9])[12][0-9]{3}-(0?[1-9]|1[0-2])(-[0-9]{1,2})?([^0-9]|$)'
    or v ~* '(^|[^a-z])((jan|febr)uary|march|april|august|(sept|nov|dec)ember|october)([^a-z]|$)' or v ~ '(^|[^0-9,.])[0-9]{5}([^0-9]|$)'
    or substring(v from '(?:^|[^0-9])(1[89][0-9]{2})([^0-9]|$)')::int <= ${THIS_YEAR} - 90
    or (own).question_text ~* '(^|[^a-z])(city|town|village|county|zip|zip ?code|postal code)([^a-z]|$)'`

/** The first that matches `view.column type` counts. */
export const SAFE_HARBOR: readonly Rule[] = [
  { rule: 'no dates but years', columns: / (date|time|timestamp)/, breaks: 'true' },
  { rule: 'the number of the team', columns: /\.team(_id)? /, breaks: `v::text !~ '^(team )?[0-9]+$'` },
  { rule: 'a code', columns: /\.(patient|\w+_id) text$/, breaks: `v !~ '^[0-9a-f]{32}$'` },
  {
    rule: 'a year of the last ninety',
    columns: /year integer$/,
    breaks: `v not between ${THIS_YEAR} - 89 and ${THIS_YEAR} + 1`,
  },
  {
    rule: 'three digits of a large ZIP area',
    columns: /\.zip3 text$/,
    breaks: `v !~ '^[0-9]{3}$' or v in (${SMALL_AREAS.map((area) => `'${area}'`).join()})`,
  },
  { rule: 'an age band to 90+', columns: /\.age_band text$/, breaks: `v !~ '^([0-8]?0-[0-8]?9|90[+])$'` },
  {
    rule: 'whole hours, up to 30 days',
    columns: / interval$/,
    breaks: `v > interval '720 hours' or date_trunc('minute', v) <> v`,
  },
  {
    rule: 'a number that was decided on, ages to 90',
    columns: /\.value_number /,
    breaks: `not ${decided('visible', 'age')} or v >= 100000000 or ${ASKS_AGE} and (v > 90 or v < 90 and v + ${YEARS_SINCE} >= 90
      and v < (select max(o.value_number) from measured o where o.question_id = (own).question_id))`,
  },
  { rule: 'a count of enough people', columns: / bigint$/, breaks: `v between 1 and ${MIN_PEOPLE - 1}` },
  {
    rule: 'a word of a list',
    columns: /\.(sex_at_birth|state|channel|status|activity) text$/,
    breaks: 'false',
  },
  {
    rule: 'tags that were decided on',
    columns: /\.tags text\[\]$/,
    breaks: `not v <@ array(select name from intake_ops.research_tags)`,
  },
  {
    rule: 'a choice of the form, no place or day, ages to 90+',
    columns: /\.choice text$/,
    breaks: `${IDENTIFIES} or (${LOCATES}) and not ${decided('visible')} or ${ASKS_AGE} and v <> '90+' and exists (
      select from regexp_matches(v, '[0-9]+', 'g') n where length(n[1]) < 4 and n[1]::int + ${YEARS_SINCE} >= 90)`,
  },
  {
    rule: 'a band of an instrument',
    columns: /\.band text$/,
    breaks: 'v not in (select b.band from intake_ops.instrument_bands b)',
  },
  { rule: 'yes or no', columns: / boolean$/, breaks: 'false' },
  {
    rule: 'words of staff',
    columns: /\.(form|packet|document|question_text|question_type|concept|instrument|title) text$/,
    breaks: 'false',
  },
  {
    rule: 'a place or a score',
    columns:
      /\.(position|question_position|value_position|items|visit|score|share_submitted) (integer|numeric)$/,
    breaks: 'false',
  },
]

/** Dates and ids of records are permitted; whoever reads them needs a data use agreement. */
export const LIMITED: readonly Rule[] = [
  { rule: 'a pseudonym', columns: /\.patient text$/, breaks: `v !~ '^[0-9a-f]{64}$'` },
  {
    rule: 'no direct identifier',
    columns:
      /\.(external_id|first_name|last_name|email|target_\w+|\w*phone\w*|address2?|city|zipcode|date_birth) /,
    breaks: 'true',
  },
  ...SAFE_HARBOR.filter(({ columns }) =>
    ['zip3 text', 'age_band text'].some((name) => columns.test(`patients.${name}`)),
  ),
  {
    rule: 'an answer without e-mail address or social security number',
    columns: /\.(choice|\w+_text) text$/,
    breaks: IDENTIFIES,
  },
  { rule: 'permitted in a limited data set', columns: /^/, breaks: 'false' },
]

/** Of the views with a column per question: what every one has, then answers. */
export const WIDE: readonly Rule[] = [
  LIMITED[0]!,
  {
    rule: 'permitted in a limited data set',
    columns:
      /\.((team_id|row_number|response_id|packet_id) (smallint|integer|text)|is_\w+ boolean|\w+_at timestamp with time zone)$/,
    breaks: 'false',
  },
  { rule: 'no dates but years in answers', columns: / (date|time|timestamp)/, breaks: 'true' },
  {
    rule: 'a number, tick or year that analysts see',
    columns: / (numeric|boolean|integer)(\[\])?$/,
    breaks: 'false',
  },
  {
    rule: 'an answer without e-mail address or social security number',
    columns: / (text|jsonb)(\[\])?$/,
    breaks: IDENTIFIES,
  },
]

/** Columns whose values people share; compared within these columns. */
export type Shared = readonly [columns: readonly string[], within: readonly string[]]

/** By view. */
export const SHARED: Readonly<Record<string, readonly Shared[]>> = {
  patients: [[DESCRIPTION, []]],
  responses: [
    [['form'], []],
    [['is_submitted', 'is_skipped', 'is_archived', 'created_year', 'submitted_year', 'visit'], ['form_id']],
  ],
  answers: [
    [
      ['choice', 'value_boolean', 'value_year', 'is_answered'],
      ['form_id', 'question_id'],
    ],
  ],
  message_outcomes: [
    [
      ['channel', 'status', 'is_sent', 'is_opened', 'is_answered', 'sent_year'],
      ['form_id', 'packet_id'],
    ],
  ],
  packet_progress: [[['activity', 'is_archived', 'created_year', 'submitted_year'], ['packet_id']]],
  scores: [[['band'], ['form_id', 'instrument']]],
  export_answers: [
    [
      ['choice', 'value_boolean'],
      ['export_id', 'question_id'],
    ],
  ],
}

/** Whose rows without a value must not be few: what is hidden is no difference from the whole. */
export const NO_FEW = /^(responses\.(is_|\w+_year|visit)|message_outcomes\.|packet_progress\.)/
