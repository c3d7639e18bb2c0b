-- No answer, and an answer that the form does not offer, are values too: else their rows would show how many they are.
-- A question, as a tag, is compared with no other: what is hidden leaves no rows from which to subtract.
create or replace view intake_raw.safe_answer_groups as
with members as (
  select m.kind, intake_ops.group_item(a.team_id, m.kind, m.scope, m.question_id, '') as set,
    intake_ops.group_item(a.team_id, m.kind, m.scope, m.question_id, m.value) as item, a.person
  from intake_raw.safe_answers a
  cross join lateral (values
    ('question', a.form_id, a.question_id, a.question_id), ('is_answered', a.form_id, a.question_id, a.is_answered::text),
    ('value', a.form_id, a.question_id, coalesce(a.choice, a.value_boolean::text, a.value_year::text,
      case when a.is_shown and a.value_number is null then case when a.is_answered then chr(31) || 'other' else chr(31) || 'none' end end))
  ) m (kind, scope, question_id, value)
)
/* the groups of members */;

comment on view intake_raw.safe_answer_groups is 'Values of columns of answers: of how many people, and whether intake_safe_harbor shows them.';
