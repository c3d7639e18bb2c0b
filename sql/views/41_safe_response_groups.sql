-- The values of columns that belong to enough people. A value of fewer than eleven is hidden; then as many larger ones are
-- hidden with it, the smallest first, as it takes for the hidden ones to be at least two values of at least eleven people. So
-- neither a count nor the difference from the whole is of fewer. Where that is not possible, all are hidden. The values of a
-- column are compared within one form, question, packet or message target (scope). No value is a value too: else the rows
-- without one would show how many there are.
create or replace view intake_raw.safe_response_groups as
with members as (
  select m.kind, intake_ops.group_item(r.team_id, m.kind, m.scope, m.question_id, '') as set,
    intake_ops.group_item(r.team_id, m.kind, m.scope, m.question_id, m.value) as item, r.person
  from intake_raw.safe_responses r
  cross join lateral (values
    ('form', null, null, r.form_id), ('packet', null, null, r.packet_id), ('document', null, null, r.document_id),
    ('is_submitted', r.form_id, null, r.is_submitted::text), ('is_skipped', r.form_id, null, r.is_skipped::text),
    ('is_archived', r.form_id, null, r.is_archived::text), ('created_year', r.form_id, null, coalesce(r.created_year::text, '')),
    ('submitted_year', r.form_id, null, coalesce(r.submitted_year::text, '')), ('visit', r.form_id, null, coalesce(r.visit::text, ''))
  ) m (kind, scope, question_id, value)
)
/* the groups of members */;

comment on view intake_raw.safe_response_groups is 'Values of columns of responses: of how many people, and whether intake_safe_harbor shows them.';
