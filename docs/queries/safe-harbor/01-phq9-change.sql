-- How does the score of a nine-question form (such as PHQ-9) change from a patient's first visit to the last?
with points (choice, points) as (
  values ('Never', 0), ('Some days', 1), ('Most days', 2), ('Every day', 3)
), scored as (
  select a.team_id, a.patient, r.visit, sum(p.points) as score
  from intake_safe_harbor.answers a
  join points p using (choice)
  join intake_safe_harbor.responses r using (team_id, response_id)
  where a.form = 'Mood check' and r.visit is not null
  group by a.team_id, a.patient, r.visit
  having count(*) = 9
), ends as (
  select team_id, patient, min(visit) as first, max(visit) as last, count(*) as visits
  from scored
  group by team_id, patient
)
select e.patient, e.visits, first.score as first_score, last.score as last_score, last.score - first.score as change
from ends e
join scored first on first.team_id = e.team_id and first.patient = e.patient and first.visit = e.first
join scored last on last.team_id = e.team_id and last.patient = e.patient and last.visit = e.last
where e.visits > 1
order by change, e.patient;
