/**
 * Questions: how much of their answers analysts see, with counts and without values; decisions, one by one or many at
 * once, and their undoing; unknown fields; wide views.
 *
 * Invariant: a decision reaches the questions that the page listed and somebody chose, and no others; all or none.
 */
import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Kysely, sql } from 'kysely'
import {
  decide,
  listQuestions,
  noteQuestions,
  type Question,
  type Visibility,
} from '../../analytics/classify.ts'
import { schemaOf } from '../../analytics/wide/wide-questions.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { readTeams } from '../../warehouse/teams.ts'
import { Refusal } from '../access.ts'
import { PATIENCE_MS, type Shared } from '../shared.ts'
import { audit, textIn } from './visits.ts'

const VIEWER = { config: { role: 'viewer' } } as const
const OPERATOR = { config: { role: 'operator' } } as const
const MAX_QUESTIONS = 500
const MAX_FINDINGS = 50
/** The counts read every answer. */
const COUNTS_MS = 60_000
const FRESH_MS = 5_000
const VISIBILITIES = ['visible', 'structured', 'hidden'] as const

/** What a question shows now, as the decision that shows the same. */
const SAME: Readonly<Record<Question['shows'], Visibility>> = {
  everything: 'visible',
  structured: 'structured',
  nothing: 'hidden',
}

export function serveQuestions(app: FastifyInstance, shared: Shared): void {
  const { readings, show } = shared
  const questions = readings.share(() => readings.look((db) => listQuestions(db, {})), FRESH_MS)
  const counts = readings.share(() => readings.look(readCounts), COUNTS_MS)
  const context = readings.share(() => readings.look(readContext), FRESH_MS)

  app.get('/questions', VIEWER, async (request, reply) => {
    const { shows = '', form = '', text = '' } = request.query as Readonly<Record<string, string>>
    const [all, answers, known] = await Promise.all([
      questions.within(PATIENCE_MS),
      counts.within(PATIENCE_MS).catch(() => null),
      context.within(PATIENCE_MS),
    ])
    const { drift, views } = known ?? { drift: [], views: [] }
    const asked = { shows, form, text }
    const listed = all?.filter((each) => isAsked(each, asked)) ?? null
    const data = {
      ...{ asked, drift, views, visibilities: VISIBILITIES, limit: MAX_QUESTIONS, keyOf },
      forms: all === null ? null : formsOf(all),
      total: listed?.length ?? 0,
      listed: listed?.slice(0, MAX_QUESTIONS) ?? null,
      answersOf: (each: Question) => (answers === null ? null : (answers.get(keyOf(each)) ?? 0)),
    }
    return show(request, reply, {
      view: 'questions',
      title: 'Questions',
      waits: all === null || known === null,
      data,
    })
  })

  app.post('/questions/decide', OPERATOR, async (request, reply) => {
    const visibility = textIn(request, 'visibility')
    const chosen = [...chosenIn(request, 'question', visibility), ...chosenIn(request, 'restore')]
    if (chosen.length === 0)
      throw new Refusal(400, 'no question was chosen', 'mark the questions to decide on')
    if (chosen.length > MAX_QUESTIONS)
      throw new Refusal(400, `at most ${MAX_QUESTIONS} questions are decided on at once`)
    // Each once: the last entry counts.
    const wanted = [...new Map(chosen.map((each) => [each.key, each])).values()]
    const before = new Map(
      (await readings.look((db) => listQuestions(db, {}))).map((each) => [keyOf(each), each]),
    )
    const unknown = wanted.filter(({ key }) => !before.has(key)).length
    if (unknown > 0) throw new Refusal(409, `${unknown} of these questions changed since the page was loaded`)
    const isUndo = visibility === ''
    await audit(shared, request.visitor!, {
      action: 'classify',
      object: objectOf(wanted.map(({ key }) => key)),
      detail: { count: wanted.length, visibility: isUndo ? 'as before' : visibility, ...summaryOf(wanted) },
    })
    await readings.look(async (db) => {
      const teams = new Map((await readTeams(db)).map(({ name, teamId }) => [name, teamId]))
      await db.transaction().execute(async (within) => {
        await noteQuestions(within)
        for (const each of wanted) {
          const { team, form_id, question_id } = before.get(each.key)!
          await decide(within, { teamId: teams.get(team)!, form: form_id }, question_id, each.visibility)
        }
      })
    })
    readings.forget()
    const decided = wanted.map(({ key, visibility: now }) => {
      const question = before.get(key)!
      return { question, now, restore: JSON.stringify([...JSON.parse(key), SAME[question.shows]]) }
    })
    return show(request, reply, { view: 'decided', title: 'Decided', data: { decided, isUndo } })
  })
}

interface Chosen {
  readonly key: string
  readonly visibility: Visibility
}

const MAX_OBJECT = 2_000

/** The first keys, as many as the audit shows. */
function objectOf(keys: readonly string[]): string {
  let named = 0
  for (let length = 0; named < keys.length; named += 1) {
    length += keys[named]!.length + 1
    if (length > MAX_OBJECT) break
  }
  const rest = named < keys.length ? [`and ${keys.length - named} more`] : []
  return [...keys.slice(0, named), ...rest].join(' ')
}

/** How many questions get which visibility, and a hash of all of them, in the order of their keys. */
function summaryOf(wanted: readonly Chosen[]): Readonly<Record<Visibility | 'sha256', string | number>> {
  const of = (visibility: Visibility) => wanted.filter((each) => each.visibility === visibility).length
  const lines = wanted.map(({ key, visibility }) => `${key} ${visibility}\n`).sort()
  const sha256 = createHash('sha256').update(lines.join('')).digest('hex')
  return { visible: of('visible'), structured: of('structured'), hidden: of('hidden'), sha256 }
}

/** Team, form and question, as a form of the page carries them. */
function keyOf({ team, form_id, question_id }: Pick<Question, 'team' | 'form_id' | 'question_id'>): string {
  return JSON.stringify([team, form_id, question_id])
}

function isAsked(
  { shows, form, form_id, question_text }: Question,
  asked: { readonly shows: string; readonly form: string; readonly text: string },
): boolean {
  const has = (text: string | null) => text?.toLowerCase().includes(asked.text.toLowerCase()) === true
  return (
    (asked.shows === '' || shows === asked.shows) &&
    (asked.form === '' || asked.form === form_id || asked.form === form) &&
    (asked.text === '' || has(question_text))
  )
}

/** Without `visibility`, each entry carries its own. */
function chosenIn({ body }: FastifyRequest, name: string, visibility?: string): readonly Chosen[] {
  const value = (body as Readonly<Record<string, unknown>> | undefined)?.[name] ?? []
  return (Array.isArray(value) ? value : [value]).map((text) => {
    let parts: unknown
    try {
      parts = JSON.parse(String(text))
    } catch {
      parts = null
    }
    const [team, form, question, own] = Array.isArray(parts) ? parts : []
    const chosen = VISIBILITIES.find((each) => each === (visibility ?? own))
    if (chosen === undefined || [team, form, question].some((each) => typeof each !== 'string'))
      throw new Refusal(
        400,
        'the form is incomplete',
        'choose questions and what analysts are to see of them',
      )
    return { key: JSON.stringify([team, form, question]), visibility: chosen }
  })
}

interface FormQuestions {
  readonly team: string
  readonly form_id: string
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
    const before = forms.get(key) ?? {
      team,
      form_id,
      form: form ?? form_id,
      nothing: 0,
      structured: 0,
      everything: 0,
    }
    forms.set(key, { ...before, [shows]: before[shows] + 1 })
  }
  return [...forms.values()].sort((a, b) => b.nothing - a.nothing)
}

/** Responses that answer each question, by `keyOf`. */
async function readCounts(db: Kysely<Warehouse>): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ team: string; form_id: string; question_id: string; answers: number }>`
    select team.name as team, response.form_id, answer.question_id, count(*)::float8 as answers
    from intake.response_answers answer
    join intake.responses response on response.team_id = answer.team_id and response.id = answer.response_id
    join intake.teams team on team.team_id = answer.team_id
    where answer.value_position = 1 and answer.value_text <> '' and answer.question_id is not null
      and response.form_id is not null
    group by 1, 2, 3`.execute(db)
  return new Map(rows.map((row) => [keyOf(row), row.answers]))
}

interface Context {
  readonly drift: readonly {
    team: string
    stream: string
    path: string
    type: string
    count: number
    last_seen: string
  }[]
  readonly views: readonly {
    team: string
    kind: string
    subject: string
    view: string
    columns: number
    made_at: string
  }[]
}

async function readContext(db: Kysely<Warehouse>): Promise<Context> {
  const { rows: drift } = await sql<Context['drift'][number]>`
    select team.name as team, stream, path, type, count::float8 as count, to_json(last_seen) #>> '{}' as last_seen
    from intake_ops.drift join intake.teams team using (team_id)
    order by drift.last_seen desc, 1, 2, 3, 4 limit ${MAX_FINDINGS}`.execute(db)
  const { rows: views } = await sql<Context['views'][number]>`
    select team.name as team, kind, subject_id as subject,
      concat_ws('.', ${schemaOf(sql.ref('kind'))}, view_name) as view,
      (select count(*)::int from intake_raw.wide_columns c
        where c.team_id = w.team_id and c.kind = w.kind and c.subject_id = w.subject_id) as columns,
      to_json(made_at) #>> '{}' as made_at
    from intake_raw.wide_views w join intake.teams team using (team_id) order by 1, 2, 4 limit ${MAX_QUESTIONS}`.execute(
    db,
  )
  return { drift, views }
}
