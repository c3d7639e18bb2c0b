-- Not a security barrier: the planner could then not estimate how many choices have points, and would compare each answer of
-- an instrument with each of its responses (intake_analytics.scores). Only views of the same owner read it.
create or replace view intake_raw.instrument_terms as
select q.team_id, q.form_id, q.question_id, q.position, q.question_text, q.question_type, q.kind, q.shows, q.is_reworded, q.choices,
  c.concept, i.instrument, i.item
from intake_raw.question_terms q
left join intake_raw.question_concepts c using (team_id, form_id, question_id)
join intake_ops.instrument_items i on case
  when c.concept is null then intake_ops.plain_wording(q.question_text) = any (i.wordings)
  else c.concept = i.instrument || '/' || i.item or c.concept = any (i.codes)
end
where q.kind = 'choice' and q.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_raw.instrument_terms is 'The questions that are items of an instrument, with what analysts see of their answers.';
comment on column intake_raw.instrument_terms.team_id is 'The team (intake.teams).';
comment on column intake_raw.instrument_terms.form_id is 'The form.';
comment on column intake_raw.instrument_terms.question_id is 'The question.';
comment on column intake_raw.instrument_terms.position is 'First position of the question in the form.';
comment on column intake_raw.instrument_terms.question_text is 'Text of the question in the form.';
comment on column intake_raw.instrument_terms.question_type is 'Type of the question in the form, as the service names it.';
comment on column intake_raw.instrument_terms.kind is 'Always choice.';
comment on column intake_raw.instrument_terms.shows is 'nothing; structured (choices of the form, numbers, yes and no); or everything (also texts, and the year of dates).';
comment on column intake_raw.instrument_terms.is_reworded is 'True if the question had another text before.';
comment on column intake_raw.instrument_terms.choices is 'Texts of the choices that the question offers or ever offered.';
comment on column intake_raw.instrument_terms.concept is 'Instrument and item that a person decided on, or a code of the question; null to go by its text.';
comment on column intake_raw.instrument_terms.instrument is 'Short name of the instrument, such as phq-9.';
comment on column intake_raw.instrument_terms.item is 'The item of the instrument that the question asks for.';
