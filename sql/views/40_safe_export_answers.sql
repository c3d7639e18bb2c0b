create or replace view intake_raw.safe_export_answers as
with terms as materialized (
  select *, kind in ('choice', 'checkbox') and shows <> 'hidden' as is_shown from intake_raw.safe_terms
)
select e.team_id, e.export_id, e.form_id, e.form, e.row_number, e.position, e.patient, hashtextextended(e.patient, 0) as person,
  extract(year from e.completed_at at time zone 'UTC')::int as completed_year,
  e.question_id, e.question_text, e.question_type, e.concept,
  e.is_shown and t.is_shown as is_shown,
  case when t.is_shown and e.choice <> all (t.hidden_choices) then
    case when t.is_age then intake_raw.safe_age(e.choice,
        (extract(year from now() at time zone 'UTC') - extract(year from e.completed_at at time zone 'UTC'))::int)
      else e.choice end
  end as choice,
  case when t.is_shown then e.value_boolean end as value_boolean,
  t.form_code, t.question_code, t.question_item, t.form_item
from intake_analytics.export_answers e
join terms t using (team_id, form_id, question_id);

comment on view intake_raw.safe_export_answers is 'Cells of exports for intake_safe_harbor, before small groups are hidden.';
