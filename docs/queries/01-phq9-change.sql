-- How does the score of a nine-question form (such as PHQ-9) change from a patient's first visit to the last?
with points (choice, points) as (
  values ('Never', 0), ('Some days', 1), ('Most days', 2), ('Every day', 3)
), visits as (
  select a.team_id, a.patient, a.response_id, a.submitted_at, sum(p.points) as score
  from intake_analytics.answers a
  join points p using (choice)
  where a.form = 'Mood check' and a.submitted_at is not null
  group by a.team_id, a.patient, a.response_id, a.submitted_at
  having count(*) = 9
), numbered as (
  select *,
    row_number() over (partition by team_id, patient order by submitted_at, response_id) as visit,
    count(*) over (partition by team_id, patient) as visits
  from visits
)
select first.patient, first.visits, first.score as first_score, last.score as last_score,
  last.score - first.score as change
from numbered first
join numbered last on last.team_id = first.team_id and last.patient = first.patient and last.visit = last.visits
where first.visit = 1 and first.visits > 1
order by change, first.patient;
