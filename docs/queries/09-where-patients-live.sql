-- Where do patients live? Areas with fewer than eleven patients are merged.
with areas as (
  select state, zip3, count(*) as patients
  from intake_analytics.patients
  group by state, zip3
)
select state, case when patients >= 11 then zip3 else 'small' end as area, sum(patients)::int as patients
from areas
group by 1, 2
order by patients desc, state, area;
