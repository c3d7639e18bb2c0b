/**
 * Charts over the analysts' views.
 *
 * Invariant: reads the views of intake_analytics and nothing with identities: counts by form, question, week and channel.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../../warehouse/tables.ts'
import { remembered } from '../readings.ts'
import { PATIENCE_MS, type Shared } from '../shared.ts'

const VIEWER = { config: { role: 'viewer' } } as const
/** The views read every response. */
const FRESH_MS = 60_000
const MAX_FORMS = 30

export function serveInsights(app: FastifyInstance, { options, readings, show }: Shared): void {
  const { clock } = options
  const insights = remembered(() => readings.look(readInsights), { freshMs: FRESH_MS, clock })

  app.get('/insights', VIEWER, async (request, reply) => {
    const found = await insights.within(PATIENCE_MS)
    return show(request, reply, {
      view: 'insights',
      title: 'Insights',
      waits: found === null,
      from: [found],
      data: { found, within: [...WITHIN.map(({ text }) => text), LATER] },
    })
  })
}

/** Upper bounds, exclusive. */
const WITHIN = [
  { hours: 1, text: 'within an hour' },
  { hours: 6, text: 'within 6 hours' },
  { hours: 24, text: 'within a day' },
  { hours: 72, text: 'within 3 days' },
  { hours: 168, text: 'within a week' },
] as const
const LATER = 'later'

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
    /** Sent a week ago or earlier; and those of them that nobody opened. */
    readonly due: number
    readonly no_shows: number
  }[]
  /** Answered messages by the time from sending to submission: one count for each of `WITHIN`, and the later ones. */
  readonly times: readonly number[]
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
      extract(epoch from percentile_cont(0.5) within group (order by time_to_answer))::float8 / 3600 as median_hours,
      count(*) filter (where sent_at < now() - interval '7 days')::float8 as due,
      count(*) filter (where sent_at < now() - interval '7 days' and not is_opened)::float8 as no_shows
    from intake_analytics.message_outcomes where is_sent group by 1 order by 1`.execute(db)
  const times = await sql<{ bucket: number; answers: number }>`
    select width_bucket(extract(epoch from time_to_answer) / 3600, array[${sql.join(WITHIN.map(({ hours }) => sql.lit(hours)))}]::numeric[]) as bucket,
      count(*)::float8 as answers
    from intake_analytics.message_outcomes where time_to_answer is not null group by 1`.execute(db)
  const weeks = await sql<Insights['weeks'][number]>`
    select date_trunc('week', day)::date::text as week, sum(responses_asked)::float8 as asked,
      sum(responses_submitted)::float8 as submitted, sum(messages_sent)::float8 as messages
    from intake_analytics.daily_volume where day > current_date - 365 group by 1 order by 1`.execute(db)
  const questions = await sql<Insights['questions'][number]>`
    with submitted as (
      select team_id, form_id, count(*) as responses from intake_analytics.responses
      where is_submitted and is_skipped is not true group by 1, 2
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
    order by 1 - least(given.answered / submitted.responses::numeric, 1) desc, 1, 2, team_id, question_id limit ${MAX_FORMS}`.execute(
    db,
  )
  return {
    ...{ forms: forms.rows, channels: channels.rows, weeks: weeks.rows, questions: questions.rows },
    times: [0, ...WITHIN].map((_, at) => times.rows.find(({ bucket }) => bucket === at)?.answers ?? 0),
  }
}
