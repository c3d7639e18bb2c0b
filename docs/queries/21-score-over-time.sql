-- How does the score of each instrument (PHQ-9, GAD-7 and others) change over time, per patient?
select patient, instrument, submitted_at, score, band,
  score - lag(score) over (partition by team_id, patient, instrument order by submitted_at, response_id) as change
from intake_analytics.scores
where score is not null
order by patient, instrument, submitted_at, response_id;
