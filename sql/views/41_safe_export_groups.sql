create or replace view intake_raw.safe_export_groups as
with members as (
  select m.kind, intake_ops.group_item(e.team_id, m.kind, m.scope, m.question_id, '') as set,
    intake_ops.group_item(e.team_id, m.kind, m.scope, m.question_id, m.value) as item, e.person
  from intake_raw.safe_export_answers e
  cross join lateral unnest(
    array['question', 'completed_year', 'value'],
    array[e.export_id, e.export_id, e.export_id],
    array[e.question_id, null, e.question_id],
    array[e.question_id, coalesce(e.completed_year::text, ''), coalesce(e.choice, e.value_boolean::text)]
  ) m (kind, scope, question_id, value)
)
/* the groups of members */;

comment on view intake_raw.safe_export_groups is 'Values of columns of export_answers: of how many people, and whether intake_safe_harbor shows them.';
