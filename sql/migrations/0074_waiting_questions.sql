-- Metrics and alerts look for questions that wait for a decision every few seconds; usually there is none.
create index question_terms_waiting on intake_raw.question_terms (team_id) where waits;
