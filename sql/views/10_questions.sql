-- Every question of every form, what kind of answers it has and how much of them analysts see. Not for analysts
-- itself: the views of intake_analytics read it, and so does `classify list`.
create or replace view intake.questions with (security_barrier = true) as
with asked as (
  select team_id, form_id, question_id,
    min(position) as position,
    (array_agg(text order by position))[1] as question_text,
    (array_agg(question_type order by position))[1] as question_type,
    (array_agg(question_subtype order by position))[1] as question_subtype,
    count(distinct (coalesce(text, ''), coalesce(question_type, ''))) = 1 as is_one_question
  from intake.form_questions
  where question_id is not null
  group by team_id, form_id, question_id
), choices as (
  select team_id, form_id, question_id, array_agg(distinct text) as texts
  from intake.question_choices
  where question_id is not null and text is not null
  group by team_id, form_id, question_id
), kinds (question_type, kind) as (
  values
    ('single_choice', 'choice'), ('multiple_choice', 'choice'), ('choice', 'choice'), ('radio', 'choice'),
    ('dropdown', 'choice'), ('select', 'choice'), ('multi_select', 'choice'), ('multiple_select', 'choice'),
    ('number', 'number'), ('integer', 'number'), ('decimal', 'number'), ('numeric', 'number'),
    ('scale', 'number'), ('slider', 'number'), ('rating', 'number'),
    ('checkbox', 'checkbox'), ('boolean', 'checkbox'), ('yes_no', 'checkbox'),
    ('date', 'date'), ('datetime', 'date'), ('time', 'text'),
    ('short_text', 'text'), ('long_text', 'text'), ('text', 'text'), ('matrix', 'matrix'),
    ('file', 'file'), ('signature', 'signature'), ('display_only', 'none'), ('repeated_block', 'none')
), decided as (
  select team_id, form_id, question_id, array_agg(wording) as wordings
  from intake_ops.classifications
  group by team_id, form_id, question_id
)
select asked.team_id, asked.form_id, asked.question_id, asked.position,
  asked.question_text, asked.question_type, asked.question_subtype,
  coalesce(kinds.kind, 'other') as kind,
  concepts.concept,
  choices.texts as choices,
  own.decided_by,
  case
    when not asked.is_one_question then 'nothing'
    when own.is_visible then case own.decided_by when 'person' then 'everything' else 'structured' end
    when own.is_visible is null and decided.wordings is null and kinds.kind in ('choice', 'number', 'checkbox')
      then 'structured'
    else 'nothing'
  end as shows
from asked
left join kinds on kinds.question_type = lower(asked.question_type)
left join choices using (team_id, form_id, question_id)
left join intake.question_concepts concepts using (team_id, form_id, question_id)
left join decided using (team_id, form_id, question_id)
left join intake_ops.classifications own
  on own.team_id = asked.team_id and own.form_id = asked.form_id and own.question_id = asked.question_id
  and own.wording = intake_ops.wording(asked.question_type, asked.question_text)
where asked.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake.questions is 'Every question of every form, and how much of its answers analysts see.';
comment on column intake.questions.team_id is 'The team (intake.teams).';
comment on column intake.questions.form_id is 'The form.';
comment on column intake.questions.question_id is 'The question.';
comment on column intake.questions.position is 'Its first place in the form.';
comment on column intake.questions.question_text is 'Its text.';
comment on column intake.questions.question_type is 'Its type, in the service''s word.';
comment on column intake.questions.question_subtype is 'Its subtype, in the service''s word.';
comment on column intake.questions.kind is 'choice, number, checkbox, date, text, matrix, file, signature, none (asks nothing) or other.';
comment on column intake.questions.concept is 'What it asks, across versions and languages (intake.question_concepts).';
comment on column intake.questions.choices is 'The texts of its choices.';
comment on column intake.questions.decided_by is 'type or person (classify); null where this wording was not decided on.';
comment on column intake.questions.shows is 'nothing; structured (choices of the form, numbers, yes and no); or everything: texts, and of dates the year.';
