-- What numbers were given to each question that asks for one?
select form, question_text as question, count(value_number) as answers,
  min(value_number) as least, max(value_number) as greatest, round(avg(value_number), 2) as mean,
  percentile_cont(0.5) within group (order by value_number) as median
from intake_analytics.answers
where value_number is not null and question_type = 'number' and submitted_at is not null
group by team_id, form, question_id, question_text
order by form, question, answers;
