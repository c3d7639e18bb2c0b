/**
 * Example queries on the tables of the warehouse, to copy and paste.
 *
 * Invariant: each query runs on its own: it contains no id and depends on no other query.
 */
import type { Session } from '../../warehouse/connect.ts'

export interface DemoQuery {
  readonly question: string
  readonly sql: string
}

export interface DemoAnswer extends DemoQuery {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
}

export const DEMO_QUERIES: readonly DemoQuery[] = [
  {
    question: 'How many patients carry each tag?',
    sql: `select coalesce(tag.name, '(no tag)') as tag,
       count(distinct patient.id)::int as patients
from intake.patients patient
left join intake.patient_tags tag
  on (tag.team_id, tag.patient_id) = (patient.team_id, patient.id)
where patient._deleted_at is null
group by 1
order by patients desc, tag`,
  },
  {
    question: 'What does the form "Insurance" ask, and what may be chosen?',
    sql: `select question.position as no, question.text as question,
       question.question_type as type,
       string_agg(choice.text, '|' order by choice.position) as choices
from intake.forms form
join intake.form_questions question
  on (question.team_id, question.form_id) = (form.team_id, form.id)
left join intake.question_choices choice
  on (choice.team_id, choice.form_id) = (form.team_id, form.id)
  and choice.question_position = question.position
where form.name = 'Insurance' and form._deleted_at is null
group by 1, 2, 3
order by 1`,
  },
  {
    question: 'Which forms are sent together?',
    sql: `select packet.name as packet,
       string_agg(form.name, '; ' order by member.position) as forms
from intake.packets packet
join intake.packet_forms member
  on (member.team_id, member.packet_id) = (packet.team_id, packet.id)
join intake.forms form
  on (form.team_id, form.id) = (member.team_id, member.form_id)
group by packet.id, packet.name
order by packet.name`,
  },
  {
    question: 'Who was deleted at the service, and what is left of them here?',
    sql: `select left(patient.id, 8) as patient,
       to_char(patient._deleted_at, 'YYYY-MM-DD HH24:MI:SS') as deleted_at,
       coalesce(patient.last_name, '(null)') as last_name,
       coalesce(patient.city, '(null)') as city,
       (select count(*)::int from intake.patient_tags tag
         where (tag.team_id, tag.patient_id)
             = (patient.team_id, patient.id)) as tags
from intake.patients patient
where patient._deleted_at is not null
order by patient.id`,
  },
  {
    question: 'How did one patient change? (payloads, for those who may read intake_raw)',
    sql: `with states as (
  select id, version, origin, payload from intake_raw.records
  where stream = 'patients' and not deleted
  union all
  select id, version, origin, payload from intake_raw.record_history
  where stream = 'patients'
)
select to_char(version, 'HH24:MI:SS.US') as version, origin,
       payload ->> 'address' as address, payload ->> 'city' as city
from states
where id = (
  select id from states group by id
  having count(distinct payload ->> 'city') > 1 order by id limit 1
)
order by states.version`,
  },
]

export async function ask(session: Session, query: DemoQuery): Promise<DemoAnswer> {
  const { fields, rows } = await session.client.query<(string | number | null)[]>({
    text: query.sql,
    rowMode: 'array',
  })
  return {
    ...query,
    columns: fields.map((field) => field.name),
    rows: rows.map((row) => row.map((cell) => cell ?? '')),
  }
}
