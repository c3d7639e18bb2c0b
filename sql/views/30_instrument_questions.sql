create or replace view intake_analytics.instrument_questions with (security_barrier = true) as
select q.team_id, q.form_id, f.name as form, q.question_id, q.position, q.question_text, q.concept, q.instrument, q.item::int as item
from intake_raw.instrument_terms q
left join intake.forms f on f.team_id = q.team_id and f.id = q.form_id;

comment on view intake_analytics.instrument_questions is 'The questions that are items of an instrument: by their concept, or without one by their text.';
comment on column intake_analytics.instrument_questions.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.instrument_questions.form_id is 'The form.';
comment on column intake_analytics.instrument_questions.form is 'Name of the form.';
comment on column intake_analytics.instrument_questions.question_id is 'The question.';
comment on column intake_analytics.instrument_questions.position is 'Its first place in the form, from 1.';
comment on column intake_analytics.instrument_questions.question_text is 'Its text.';
comment on column intake_analytics.instrument_questions.concept is 'What it asks: classify set --concept.';
comment on column intake_analytics.instrument_questions.instrument is 'Short name of the instrument, such as phq-9.';
comment on column intake_analytics.instrument_questions.item is 'Place of the item in the instrument, from 1.';
