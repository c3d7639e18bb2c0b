-- Who are the patients, by age and sex at birth? Mind small cells before you pass a table on.
select age_band, sex_at_birth, count(*) as patients
from intake_analytics.patients
group by age_band, sex_at_birth
order by age_band, sex_at_birth;
