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
