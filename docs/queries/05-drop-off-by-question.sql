-- Which questions of submitted responses are left without an answer most? Free text counts too: that something was
-- answered is told, what was answered is not.
with submitted as (
  select team_id, form_id, count(*) as responses
  from intake_analytics.responses
  where is_submitted and not is_skipped
  group by team_id, form_id
), given as (
  select team_id, form_id, form, question_id, min(question_text) as question, min(position) as place,
    count(*) filter (where is_answered) as answered
  from intake_analytics.answers
  where submitted_at is not null and question_id is not null and value_position = 1
  group by team_id, form_id, form, question_id
)
select g.form, g.question, g.answered, s.responses,
  round(1 - least(g.answered / s.responses::numeric, 1), 4) as share_left_out
from given g
join submitted s using (team_id, form_id)
order by share_left_out desc, g.form, g.place, g.question_id;
