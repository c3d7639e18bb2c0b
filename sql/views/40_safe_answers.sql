-- Answers as researchers may see them, but for the groups that are too small. They see nothing that analysts do not see; of
-- that, free text never, and numbers and years only where somebody decided so for researchers. An age is counted as of today,
-- so that an answer of long ago does not reveal an age of 90 or over.
create or replace view intake_raw.safe_answers as
with terms as materialized (
  select * from intake_raw.safe_terms
)
select a.team_id, a.response_id, a.position, a.value_position, a.patient, hashtextextended(a.patient, 0) as person,
  a.form_id, a.form, a.submitted_at is not null as is_submitted,
  extract(year from a.submitted_at at time zone 'UTC')::int as submitted_year,
  a.question_id, a.question_text, a.question_type, a.concept, a.is_answered,
  a.is_shown and t.shows <> 'hidden' and t.kind in ('choice', 'checkbox')
    or a.is_shown and t.shows in ('visible', 'age') and t.kind in ('number', 'date') and not a.is_reworded as is_shown,
  case when t.shows <> 'hidden' and t.kind = 'choice' and a.choice <> all (t.hidden_choices) then
    case when t.is_age then intake_raw.safe_age(a.choice, now_year.number - extract(year from a.submitted_at at time zone 'UTC')::int)
      else a.choice end
  end as choice,
  case when t.shows <> 'hidden' and t.kind = 'checkbox' then a.value_boolean end as value_boolean,
  case when t.shows in ('visible', 'age') and t.kind = 'date' and not a.is_reworded then a.value_year end as value_year,
  case
    when t.shows not in ('visible', 'age') or t.kind <> 'number' or a.is_reworded then null
    when t.is_age then case
      when a.value_number + now_year.number - extract(year from a.submitted_at at time zone 'UTC') >= 90 then 90
      when a.submitted_at is not null then a.value_number
    end
    when t.is_year and a.value_number between 1000 and now_year.number - 90 then null
    else a.value_number
  end as value_number,
  t.form_code, t.question_code, t.question_item, t.form_item
from intake_analytics.answers a
join terms t on t.team_id = a.team_id and t.form_id = a.form_id and t.question_id = a.question_id
cross join (select extract(year from now() at time zone 'UTC')::int as number) now_year;

comment on view intake_raw.safe_answers is 'Answers for intake_safe_harbor, before small groups are hidden.';
