-- How often was each consent checkbox ticked or left blank?
select form, question_text as question, count(*) filter (where value_boolean) as ticked,
  count(*) filter (where not value_boolean) as blank
from intake_analytics.answers
where question_type = 'checkbox' and value_boolean is not null
group by team_id, form, question_id, question_text
order by form, question, ticked;
