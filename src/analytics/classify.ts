/**
 * Which questions' answers analysts see (intake_ops.classifications).
 *
 * Invariant: a decision applies to the type and text that the question has when it is made. Once either changes, the
 * question waits for a new decision, and shows at most the choices of the form that its type had shown. A new question gets
 * a decision by its type.
 */
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'

export interface Question {
  readonly team: string
  readonly form_id: string
  readonly form: string | null
  readonly question_id: string
  readonly position: number
  readonly question_text: string | null
  readonly question_type: string | null
  readonly concept: string | null
  /** Null if this wording has no decision. */
  readonly decided_by: 'type' | 'person' | null
  readonly shows: 'nothing' | 'structured' | 'everything'
  /** True if it was decided on, then reworded, and waits for a decision. */
  readonly waits: boolean
}

/** What a person decides on: as the type shows it, or all or nothing of the answers. */
export type Visibility = 'hidden' | 'structured' | 'visible'

/** What a person decides on for researchers; `structured` is what the type shows them: choices and ticks. */
export type ForResearchers = Visibility | 'age'

/** A team and a form, by id or name; all of them where left out. */
export interface Scope {
  readonly teamId?: number
  readonly form?: string
}

export async function listQuestions(db: Kysely<Warehouse>, scope: Scope): Promise<readonly Question[]> {
  const { rows } = await sql<Question>`
    select team.name as team, q.form_id, f.name as form, q.question_id, q.position, q.question_text, q.question_type,
      q.concept, q.decided_by, q.shows, q.waits
    from intake.questions q
    join intake.teams team on team.team_id = q.team_id
    left join intake.forms f on f.team_id = q.team_id and f.id = q.form_id
    where ${within(scope)}
    order by team.name, f.name, q.form_id, q.position`.execute(db)
  return rows
}

/** A question that was decided on, then reworded, and waits for a decision. */
export interface WaitingQuestion {
  readonly team: string
  readonly form_id: string
  readonly question_id: string
}

/** Of teams that were not removed, by team, form and position. */
export async function waitingQuestions(db: Kysely<Warehouse>): Promise<readonly WaitingQuestion[]> {
  const { rows } = await sql<WaitingQuestion>`
    select team.name as team, q.form_id, q.question_id
    from intake_raw.question_terms q join intake.teams team using (team_id)
    where q.waits and not exists (select from intake_ops.removed_teams removed where removed.team_id = q.team_id)
    order by team.name, q.form_id, q.position, q.question_id`.execute(db)
  return rows
}

/** One line for a person: their number, and the ids of the first ones. */
export function waitingText(questions: readonly Omit<WaitingQuestion, 'team'>[]): string {
  const named = questions.slice(0, 5).map(({ form_id, question_id }) => `${question_id} of form ${form_id}`)
  const rest = questions.length > named.length ? `, and ${questions.length - named.length} more` : ''
  return `${questions.length} reworded question(s) wait for a decision: ${named.join(', ')}${rest}; see intake-sync classify list --waiting`
}

/** Decides on a question as it is now. Returns the number of matching questions, which may be of several forms or teams. */
export async function decide(
  db: Kysely<Warehouse>,
  scope: Scope,
  questionId: string,
  visibility: Visibility,
): Promise<number> {
  const { rows } = await sql`
    insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, by_type, decided_by)
    select q.team_id, q.form_id, q.question_id, intake_ops.wording(q.question_type, q.question_text),
      case ${visibility} when 'hidden' then false when 'visible' then true else q.kind in ('choice', 'number', 'checkbox') end,
      ${visibility} = 'structured', 'person'
    from intake.questions q
    left join intake.forms f on f.team_id = q.team_id and f.id = q.form_id
    where q.question_id = ${questionId} and ${within(scope)}
    on conflict (team_id, form_id, question_id, wording)
      do update set is_visible = excluded.is_visible, by_type = excluded.by_type, decided_by = excluded.decided_by,
        decided_at = now()
    returning team_id`.execute(db)
  return rows.length
}

/** The questions with this text, blanks around it aside. */
export async function questionsOfText(
  db: Kysely<Warehouse>,
  scope: Scope,
  text: string,
): Promise<readonly { readonly teamId: number; readonly form: string; readonly questionId: string }[]> {
  const { rows } = await sql<{ teamId: number; form: string; questionId: string }>`
    select q.team_id as "teamId", q.form_id as form, q.question_id as "questionId"
    from intake.questions q
    left join intake.forms f on f.team_id = q.team_id and f.id = q.form_id
    where trim(E' \t\r\n' from q.question_text) = trim(E' \t\r\n' from ${text}) and ${within(scope)}
    order by q.team_id, q.form_id, q.position`.execute(db)
  return rows
}

/** As `decide`, for the researchers of intake_safe_harbor. They never see what analysts do not see. */
export async function decideForResearchers(
  db: Kysely<Warehouse>,
  scope: Scope,
  questionId: string,
  shows: ForResearchers,
): Promise<number> {
  const chosen = sql`
    select q.team_id, q.form_id, q.question_id, intake_ops.wording(q.question_type, q.question_text) as wording
    from intake.questions q
    left join intake.forms f on f.team_id = q.team_id and f.id = q.form_id
    where q.question_id = ${questionId} and ${within(scope)}`
  await (shows === 'structured'
    ? sql`delete from intake_ops.research_questions
        where (team_id, form_id, question_id) in (select team_id, form_id, question_id from (${chosen}) chosen)`
    : sql`
      insert into intake_ops.research_questions (team_id, form_id, question_id, wording, shows)
      select chosen.*, ${shows} from (${chosen}) chosen
      on conflict (team_id, form_id, question_id, wording)
        do update set shows = excluded.shows, decided_at = now()`
  ).execute(db)
  return await countQuestions(db, scope, questionId)
}

export interface Tag {
  readonly team: string
  readonly name: string
  readonly patients: number
}

/** The tags that researchers see. Others are not listed: staff may have written a name. */
export async function shownTags(db: Kysely<Warehouse>, { teamId }: Scope): Promise<readonly Tag[]> {
  const { rows } = await sql<Tag>`
    select team.name as team, t.name, count(distinct own.patient_id)::int as patients
    from intake_ops.research_tags t
    join intake.teams team on team.team_id = t.team_id
    left join intake.patient_tags own on own.team_id = t.team_id and own.name = t.name
    where ${teamId ?? null}::smallint is null or t.team_id = ${teamId ?? null}::smallint
    group by team.name, t.name
    order by team.name, t.name`.execute(db)
  return rows
}

/** Shows a tag to researchers, or hides it. False if no patient has it and no decision named it. */
export async function decideOnTag(
  db: Kysely<Warehouse>,
  { teamId }: Scope,
  name: string,
  isShown: boolean,
): Promise<boolean> {
  const { rows } = await (isShown
    ? sql`insert into intake_ops.research_tags (team_id, name)
        select distinct team_id, name from intake.patient_tags
        where name = ${name} and (${teamId ?? null}::smallint is null or team_id = ${teamId ?? null}::smallint)
        on conflict (team_id, name) do update set decided_at = now() returning name`
    : sql`delete from intake_ops.research_tags
        where name = ${name} and (${teamId ?? null}::smallint is null or team_id = ${teamId ?? null}::smallint)
        returning name`
  ).execute(db)
  return rows.length > 0
}

/** The number of matching questions, which may be of several forms or teams. */
export async function countQuestions(
  db: Kysely<Warehouse>,
  scope: Scope,
  questionId: string,
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count
    from intake.questions q
    left join intake.forms f on f.team_id = q.team_id and f.id = q.form_id
    where q.question_id = ${questionId} and ${within(scope)}`.execute(db)
  return rows[0]!.count
}

/** Sets the concept of a question; an empty text removes it. */
export async function nameConcept(
  db: Kysely<Warehouse>,
  scope: Scope,
  questionId: string,
  concept: string,
): Promise<void> {
  const chosen = sql`
    select q.team_id, q.form_id, q.question_id from intake.questions q
    left join intake.forms f on f.team_id = q.team_id and f.id = q.form_id
    where q.question_id = ${questionId} and ${within(scope)}`
  await (concept === ''
    ? sql`delete from intake_raw.question_concepts where (team_id, form_id, question_id) in (${chosen})`
    : sql`
      insert into intake_raw.question_concepts (team_id, form_id, question_id, concept)
      select chosen.*, ${concept} from (${chosen}) chosen
      on conflict (team_id, form_id, question_id) do update set concept = excluded.concept`
  ).execute(db)
}

/** Adds decisions by type: for each new question, and for a reworded one that stays hidden by its type. Others wait. */
export async function noteQuestions(db: Kysely<Warehouse>): Promise<void> {
  await sql`
    insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
    select q.team_id, q.form_id, q.question_id, intake_ops.wording(q.question_type, q.question_text),
      q.shows <> 'nothing', 'type'
    from intake.questions q
    where q.decided_by is null and not q.waits and (q.is_asked or not exists (
      select from intake_ops.classifications c
      where c.team_id = q.team_id and c.form_id = q.form_id and c.question_id = q.question_id
    ))
    on conflict do nothing`.execute(db)
}

function within({ teamId, form }: Scope) {
  return sql`(${teamId ?? null}::smallint is null or q.team_id = ${teamId ?? null}::smallint)
    and (${form ?? null}::text is null or ${form ?? null} in (q.form_id, f.name))`
}
