-- Does the export of a form contain as many answers as its responses? It contains one response per patient, so never more.
with exported as (
  select team_id, form_id, question_id, count(*) as cells
  from intake_analytics.export_answers
  where is_shown and form = 'Intake'
  group by team_id, form_id, question_id
), answered as (
  select team_id, form_id, question_id, min(question_text) as question, count(distinct patient) as patients
  from intake_analytics.answers
  where is_shown and is_answered and form = 'Intake'
  group by team_id, form_id, question_id
)
select question, cells, patients
from exported
join answered using (team_id, form_id, question_id)
order by question, cells;
