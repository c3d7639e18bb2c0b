-- What was known of each patient on a given day? Identified: with the role intake_clinical. Add "and patient_id = '…'" for one.
select team_id, patient_id, city, state, provider, valid_from, known_from, known_from > timestamptz '2026-01-31 00:00Z' as is_earlier_state_unknown
from intake.patients_history
where valid_from <= timestamptz '2026-01-31 00:00Z' and (valid_to is null or valid_to > timestamptz '2026-01-31 00:00Z') and not is_deleted
order by team_id, patient_id;
