-- The least and the greatest number of a question that are shown: those of the eleventh person from either end. Further ones
-- are shown as these, so that nobody stands out at an end.
create or replace view intake_raw.safe_number_bounds as
select team_id, form_id, question_id, (array_agg(least_number order by least_number))[11] as least_number,
  (array_agg(greatest_number order by greatest_number desc))[11] as greatest_number
from (
  select team_id, form_id, question_id, person, min(value_number) as least_number, max(value_number) as greatest_number
  from intake_raw.safe_answers
  where value_number is not null and person is not null
    and question_id = any ((select array_agg(question_id) from intake_raw.safe_terms where kind = 'number' and shows in ('visible', 'age'))::text[])
  group by team_id, form_id, question_id, person
) own
group by team_id, form_id, question_id
having count(*) >= 22;

comment on view intake_raw.safe_number_bounds is 'The least and the greatest number of a question that intake_safe_harbor shows.';
