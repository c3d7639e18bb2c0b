/**
 * The analyst's part of the demo: queries on the views of intake_analytics with the role `intake_analyst`, and one
 * query that the role must not run.
 *
 * Invariant: every query runs with that role only. The demo fails if the role can read names.
 */
import { IntakeError } from '../../core/errors.ts'
import type { Session } from '../../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf } from '../../warehouse/sqlstate.ts'
import { REWORDED_FORM } from './service.ts'
import { type DemoAnswer, type DemoQuery, runQuery } from './text.ts'

export interface AnalystResults {
  readonly answers: readonly DemoAnswer[]
  /** The query that Postgres refused. */
  readonly refused: { readonly sql: string; readonly reason: string }
}

const ANALYST_QUERIES: readonly DemoQuery[] = [
  {
    question: 'How old are the patients, and how many live in an area of few?',
    sql: `select age_band, count(*)::int as patients,
       count(*) filter (where zip3 = '000')::int as in_small_areas
from intake_analytics.patients
group by age_band
order by age_band`,
  },
  {
    question: 'Of the forms that were asked for by message, how many were answered?',
    sql: `select channel, count(*)::int as sent,
       count(*) filter (where is_opened)::int as opened,
       count(*) filter (where is_answered)::int as answered
from intake_analytics.message_outcomes
where is_sent
group by channel
order by channel`,
  },
  {
    question: 'How often was each choice of the form "Mood check" taken?',
    sql: `select choice, count(*)::int as times, count(distinct patient)::int as patients
from intake_analytics.answers
where form = 'Mood check' and choice is not null
group by choice
order by times desc, choice`,
  },
  {
    question: `Which answers to "${REWORDED_FORM}" are shown, and which wait for a decision?`,
    sql: `select question_text as question, question_type as type,
       case when is_shown then 'shown' else 'hidden' end as answers,
       case when waits then 'since it was reworded' end as waits
from intake_analytics.questions
where form = '${REWORDED_FORM}'
order by form_id, position`,
  },
]

const NAMES = 'select first_name, last_name from intake.patients'

export async function queryAsAnalyst(session: Session): Promise<AnalystResults> {
  await session.client.query('set role intake_analyst')
  try {
    const answers: DemoAnswer[] = []
    for (const query of ANALYST_QUERIES) answers.push(await runQuery(session, query))
    return { answers, refused: { sql: NAMES, reason: await refusal(session) } }
  } finally {
    await session.client.query('reset role')
  }
}

async function refusal({ client }: Session): Promise<string> {
  try {
    await client.query(NAMES)
  } catch (error) {
    if (sqlstateOf(error) === SQLSTATE.insufficientPrivilege) return (error as Error).message
    throw error
  }
  throw new IntakeError('the demo: an analyst could read names', { code: 'internal', verdict: 'stop' })
}
