-- How often was each choice of a question selected?
select question_text as question, choice, count(*) as times,
  round(count(*) / sum(count(*)) over (partition by team_id, question_id), 4) as share
from intake_analytics.answers
where form = 'Insurance' and choice is not null and submitted_at is not null
group by team_id, question_id, question_text, choice
order by question, times desc, choice;
