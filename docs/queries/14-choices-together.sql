-- Which choices of one question are selected together?
with taken as materialized (
  select team_id, response_id, question_id, choice
  from intake_analytics.answers
  where form = 'Intake' and question_text = 'Devices you use' and choice is not null and submitted_at is not null
)
select a.choice as one, b.choice as other, count(*) as times
from taken a
join taken b
  on b.team_id = a.team_id and b.response_id = a.response_id and b.question_id = a.question_id and b.choice > a.choice
group by a.choice, b.choice
order by times desc, one, other;
