create or replace view intake_raw.safe_export_answers as
with terms as materialized (
  select q.team_id, q.form_id, q.question_id, q.kind in ('choice', 'checkbox') and d.shows is distinct from 'hidden' as is_shown,
    coalesce(d.shows = 'age', false) or intake_ops.asks_age(q.question_text) as is_age,
    intake_ops.research_code(k.inner_pad, k.outer_pad, 'form', q.team_id, q.form_id) as form_code,
    intake_ops.research_code(k.inner_pad, k.outer_pad, 'question', q.team_id, q.question_id) as question_code
  from intake_raw.question_terms q
  cross join intake_ops.analytics_key k
  left join intake_ops.research_questions d
    on d.team_id = q.team_id and d.form_id = q.form_id and d.question_id = q.question_id
    and d.wording = intake_ops.wording(q.question_type, q.question_text)
)
select e.team_id, e.export_id, e.form_id, e.form, e.row_number, e.position, e.patient, hashtextextended(e.patient, 0) as person,
  extract(year from e.completed_at at time zone 'UTC')::int as completed_year,
  e.question_id, e.question_text, e.question_type, e.concept,
  e.is_shown and t.is_shown as is_shown,
  case when t.is_shown then case when t.is_age then intake_ops.choice_of_age(e.choice) else e.choice end end as choice,
  case when t.is_shown then e.value_boolean end as value_boolean,
  t.form_code, t.question_code
from intake_analytics.export_answers e
join terms t using (team_id, form_id, question_id);

comment on view intake_raw.safe_export_answers is 'Cells of exports for intake_safe_harbor, before small groups are hidden.';
