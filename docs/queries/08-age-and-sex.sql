-- How many patients are there, by age and sex at birth? Merge small cells before you publish the table.
select age_band, sex_at_birth, count(*) as patients
from intake_analytics.patients
group by age_band, sex_at_birth
order by age_band, sex_at_birth;
