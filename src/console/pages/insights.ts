/**
 * Questions and their classification, and charts over the analysts' views.
 *
 * Invariant: reads the views of intake_analytics and nothing with identities: counts by form, question, week and channel.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { listQuestions, type Question } from '../../analytics/classify.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { remembered } from '../readings.ts'
import type { Shared } from '../shared.ts'

const VIEWER = { config: { role: 'viewer' } } as const
const PATIENCE_MS = 700
/** The views read every response. */
const FRESH_MS = 60_000
const MAX_FORMS = 30
const MAX_QUESTIONS = 500

export function serveInsights(app: FastifyInstance, { options, readings, show }: Shared): void {
  const { clock } = options
  const insights = remembered(() => readings.look(readInsights), { freshMs: FRESH_MS, clock })
  const questions = remembered(() => readings.look((db) => listQuestions(db, {})), { freshMs: 5_000, clock })

  app.get('/insights', VIEWER, async (request, reply) => {
    const found = await insights.within(PATIENCE_MS)
    return show(request, reply, {
      view: 'insights',
      title: 'Insights',
      waits: found === null,
      data: { found },
    })
  })

  app.get('/questions', VIEWER, async (request, reply) => {
    const { shows = '' } = request.query as { shows?: string }
    const all = await questions.within(PATIENCE_MS)
    const listed = all?.filter((each) => shows === '' || each.shows === shows) ?? null
    const data = {
      ...{
        shows,
        forms: all === null ? null : formsOf(all),
        total: listed?.length ?? 0,
        limit: MAX_QUESTIONS,
      },
      listed: listed?.slice(0, MAX_QUESTIONS) ?? null,
    }
    return show(request, reply, { view: 'questions', title: 'Questions', waits: all === null, data })
  })
}

interface FormQuestions {
  readonly team: string
  readonly form: string
  readonly nothing: number
  readonly structured: number
  readonly everything: number
}

/** How many questions of each form show what; forms that hide most first. */
function formsOf(questions: readonly Question[]): readonly FormQuestions[] {
  const forms = new Map<string, FormQuestions>()
  for (const { team, form_id, form, shows } of questions) {
    const key = `${team} ${form_id}`
    const before = forms.get(key) ?? { team, form: form ?? form_id, nothing: 0, structured: 0, everything: 0 }
    forms.set(key, { ...before, [shows]: before[shows] + 1 })
  }
  return [...forms.values()].sort((a, b) => b.nothing - a.nothing)
}

export interface Insights {
  readonly forms: readonly {
    readonly form: string
    readonly asked: number
    readonly submitted: number
    readonly skipped: number
    readonly median_hours: number | null
  }[]
  readonly channels: readonly {
    readonly channel: string
    readonly sent: number
    readonly opened: number
    readonly answered: number
    readonly median_hours: number | null
  }[]
  readonly weeks: readonly {
    readonly week: string
    readonly asked: number
    readonly submitted: number
    readonly messages: number
  }[]
  readonly questions: readonly {
    readonly form: string
    readonly question: string
    readonly responses: number
    readonly left_out: number
  }[]
}

async function readInsights(db: Kysely<Warehouse>): Promise<Insights> {
  const forms = await sql<Insights['forms'][number]>`
    select coalesce(form, form_id) as form, sum(started)::float8 as asked, sum(submitted)::float8 as submitted,
      sum(skipped)::float8 as skipped, max(extract(epoch from median_time))::float8 / 3600 as median_hours
    from intake_analytics.form_completion group by 1 order by 2 desc, 1 limit ${MAX_FORMS}`.execute(db)
  const channels = await sql<Insights['channels'][number]>`
    select coalesce(channel, 'unknown') as channel, count(*)::float8 as sent,
      count(*) filter (where is_opened)::float8 as opened, count(*) filter (where is_answered)::float8 as answered,
      extract(epoch from percentile_cont(0.5) within group (order by time_to_answer))::float8 / 3600 as median_hours
    from intake_analytics.message_outcomes where is_sent group by 1 order by 1`.execute(db)
  const weeks = await sql<Insights['weeks'][number]>`
    select date_trunc('week', day)::date::text as week, sum(responses_asked)::float8 as asked,
      sum(responses_submitted)::float8 as submitted, sum(messages_sent)::float8 as messages
    from intake_analytics.daily_volume where day > current_date - 365 group by 1 order by 1`.execute(db)
  const questions = await sql<Insights['questions'][number]>`
    with submitted as (
      select team_id, form_id, count(*) as responses from intake_analytics.responses
      where is_submitted and not is_skipped group by 1, 2
    ), given as (
      select team_id, form_id, question_id, count(*) filter (where is_answered) as answered
      from intake_analytics.answers
      where submitted_at is not null and question_id is not null and value_position = 1 group by 1, 2, 3
    )
    select coalesce(q.form, given.form_id) as form, coalesce(q.question_text, given.question_id) as question,
      submitted.responses::float8 as responses,
      greatest(0, submitted.responses - given.answered)::float8 as left_out
    from given join submitted using (team_id, form_id)
    left join intake_analytics.questions q using (team_id, form_id, question_id)
    order by 1 - least(given.answered / submitted.responses::numeric, 1) desc, 1, 2 limit ${MAX_FORMS}`.execute(
    db,
  )
  return { forms: forms.rows, channels: channels.rows, weeks: weeks.rows, questions: questions.rows }
}
