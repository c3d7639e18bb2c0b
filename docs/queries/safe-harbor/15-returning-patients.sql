-- How many patients come back to a form?
select form, count(distinct patient) as patients, count(distinct patient) filter (where visit > 1) as returned
from intake_safe_harbor.responses
where visit is not null and is_submitted is not false
group by form
order by form;
