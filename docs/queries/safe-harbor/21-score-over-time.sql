-- How does the score of each instrument (PHQ-9, GAD-7 and others) change over time, per patient?
select s.patient, s.instrument, r.visit, s.submitted_year, s.score, s.band,
  s.score - lag(s.score) over (partition by s.team_id, s.patient, s.form_id, s.instrument order by r.visit) as change
from intake_safe_harbor.scores s
join intake_safe_harbor.responses r using (team_id, response_id)
where s.score is not null and r.visit is not null
order by s.patient, s.instrument, s.form_id, r.visit;
