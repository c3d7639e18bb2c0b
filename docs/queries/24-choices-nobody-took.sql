-- How often was each choice that a form offers selected, also if nobody took it?
with taken as (
  select team_id, form_id, question_id, choice, count(*) as times
  from intake_analytics.answers
  where form = 'Insurance' and choice is not null and submitted_at is not null
  group by team_id, form_id, question_id, choice
)
select c.question_text as question, c.position, c.choice, coalesce(t.times, 0)::int as times
from intake_analytics.choices c
left join taken t using (team_id, form_id, question_id, choice)
where c.form = 'Insurance'
order by c.question_position, c.position;
