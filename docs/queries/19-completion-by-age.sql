-- Do older patients finish fewer forms?
select p.age_band, count(*) as responses, count(*) filter (where r.is_submitted) as submitted,
  round(count(*) filter (where r.is_submitted) / count(*)::numeric, 4) as share_submitted
from intake_analytics.responses r
join intake_analytics.patients p using (team_id, patient)
where r.is_skipped is not true
group by p.age_band
order by p.age_band;
