-- No answer, and an answer that the form does not offer, are values too: else their rows would show how many they are.
-- A question, as a tag, is compared with no other: what is hidden leaves no rows from which to subtract.
create or replace view intake_raw.safe_answer_groups as
with given as materialized (
  select question_item, is_answered, person,
    hashtextextended(coalesce(choice, value_boolean::text, value_year::text,
      case when is_shown and value_number is null then case when is_answered then chr(31) || 'other' else chr(31) || 'none' end end
    ), question_item) as value_item
  from intake_raw.safe_answers
), members as (
  select 'question' as kind, question_item as set, question_item as item, person from given
  union all
  select 'is_answered', question_item, hashtextextended(is_answered::text, question_item # 1), person from given
  union all
  select 'value', question_item, value_item, person from given
)
/* the groups of members */;

comment on view intake_raw.safe_answer_groups is 'Values of columns of answers: of how many people, and whether intake_safe_harbor shows them.';
