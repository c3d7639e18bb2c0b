-- What does one form look like with a column per question? A reworded question keeps its column; answers to a wording that
-- nobody decided on are null.
select *
from intake_forms.form_intake
where is_submitted and is_skipped is not true
order by submitted_at, response_id;
