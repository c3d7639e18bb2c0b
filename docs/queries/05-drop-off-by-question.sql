-- Which questions are most often left unanswered in submitted responses? Free text counts too: is_answered shows that
-- there is an answer, without its text. Questions are joined after counting, because there are many answers.
with submitted as (
  select team_id, form_id, count(*) as responses
  from intake_analytics.responses
  where is_submitted and is_skipped is not true
  group by team_id, form_id
), given as (
  select team_id, form_id, question_id, count(*) filter (where is_answered) as answered
  from intake_analytics.answers
  where submitted_at is not null and question_id is not null and value_position = 1
  group by team_id, form_id, question_id
)
select q.form, q.question_text as question, g.answered, s.responses,
  round(1 - least(g.answered / s.responses::numeric, 1), 4) as share_left_out
from given g
join submitted s using (team_id, form_id)
left join intake_analytics.questions q using (team_id, form_id, question_id)
order by share_left_out desc, q.form, q.position, g.question_id;
