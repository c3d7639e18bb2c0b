-- What a form that was imported from a FHIR Questionnaire says of its questions and choices. The service's specification has
-- no such fields; a form without them has nulls.

alter table intake.form_questions add column link_id text;
alter table intake.form_questions add column page int;
alter table intake.form_questions add column block_id text;
comment on column intake.form_questions.link_id is 'linkId of the item in the FHIR Questionnaire that the form was imported from; null for other forms.';
comment on column intake.form_questions.page is 'Page of the form that the question is on, from 1, where the service shows it.';
comment on column intake.form_questions.block_id is 'question_id of the repeated block or table that the question is a member of.';

alter table intake.question_choices add column code text;
alter table intake.question_choices add column points numeric;
comment on column intake.question_choices.code is 'Code of the choice in the FHIR Questionnaire that the form was imported from.';
comment on column intake.question_choices.points is 'What the choice counts in the score of its questionnaire, where the service shows it.';

-- Of stored forms, the same values that a load writes.
create temporary table listed on commit drop as
select r.team_id, r.id as form_id, item.place::int as position, null::text as question_id, item.value
from intake_raw.records r
cross join lateral jsonb_array_elements(
  case when jsonb_typeof(r.payload -> 'questions') = 'array' then r.payload -> 'questions' else '[]' end
) with ordinality as item (value, place)
where r.stream = 'forms' and not r.deleted and jsonb_typeof(item.value) = 'object'
union all
select r.team_id, r.id, null, item.value ->> 'id', item.value
from intake_raw.records r
cross join lateral jsonb_path_query(
  r.payload - 'questions', 'lax $.**.questions[*] ? (@.id.type() == "string" || @.id.type() == "number")'
) as item (value)
where r.stream = 'forms' and not r.deleted
  and case when jsonb_typeof(r.payload -> 'questions') = 'array' then jsonb_array_length(r.payload -> 'questions') else 0 end = 0;

update intake.form_questions question
set link_id = listed.value ->> 'link_id',
  page = case when listed.value ->> 'page' ~ '^[0-9]{1,9}$' then (listed.value ->> 'page')::int end,
  block_id = case jsonb_typeof(listed.value -> 'block')
    when 'object' then listed.value -> 'block' ->> 'id'
    when 'string' then nullif(listed.value ->> 'block', '')
    when 'number' then listed.value ->> 'block'
  end
from listed
where question.team_id = listed.team_id and question.form_id = listed.form_id
  and (question.position = listed.position or question.question_id = listed.question_id)
  and listed.value ?| array['link_id', 'page', 'block'];

update intake.question_choices choice
set code = offered.value ->> 'code',
  points = case when jsonb_typeof(offered.value -> 'points') = 'number' then (offered.value ->> 'points')::numeric end
from listed
cross join lateral jsonb_array_elements(
  case when jsonb_typeof(listed.value -> 'choices') = 'array' then listed.value -> 'choices' else '[]' end
) with ordinality as offered (value, place)
where choice.team_id = listed.team_id and choice.form_id = listed.form_id and choice.position = offered.place
  and (choice.question_position = listed.position or choice.question_id = listed.question_id)
  and offered.value ?| array['code', 'points'];
