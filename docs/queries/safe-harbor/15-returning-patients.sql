-- How many patients come back to a form?
select form, count(distinct patient) as patients, count(distinct patient) filter (where visit > 1) as returned
from intake_safe_harbor.responses
where visit is not null
group by form
order by form;
