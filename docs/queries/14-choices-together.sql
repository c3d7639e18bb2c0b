-- Which choices of one question are taken together?
select a.choice as one, b.choice as other, count(*) as times
from intake_analytics.answers a
join intake_analytics.answers b
  on b.team_id = a.team_id and b.response_id = a.response_id and b.question_id = a.question_id and b.choice > a.choice
where a.form = 'Intake' and b.form = 'Intake' and a.submitted_at is not null and b.submitted_at is not null
  and a.question_text = 'Devices you use' and b.question_text = 'Devices you use'
group by a.choice, b.choice
order by times desc, one, other;
