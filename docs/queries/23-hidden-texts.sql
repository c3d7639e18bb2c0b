-- Which questions ask for free text that analysts do not see? A question that waits was reworded since it was decided on.
select form, position, question_text as question, question_type, waits
from intake_analytics.questions
where not is_shown and is_asked and question_type in ('short_text', 'long_text', 'text')
order by form, position;
