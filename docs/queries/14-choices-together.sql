-- Which choices of one question are selected together? Each answer's choices are gathered once; joining the choices with
-- themselves would compare every one with every other.
with taken as (
  select team_id, response_id, question_id, array_agg(distinct choice order by choice) as choices
  from intake_analytics.answers
  where form = 'Intake' and question_text = 'Devices you use' and choice is not null and submitted_at is not null
  group by team_id, response_id, question_id
)
select a.choice as one, b.choice as other, count(*) as times
from taken
cross join unnest(choices) with ordinality as a (choice, place)
cross join unnest(choices) with ordinality as b (choice, place)
where b.place > a.place
group by a.choice, b.choice
order by times desc, one, other;
