create or replace view intake_raw.safe_packet_groups as
with members as (
  select m.kind, intake_ops.group_item(p.team_id, m.kind, m.scope, m.question_id, '') as set,
    intake_ops.group_item(p.team_id, m.kind, m.scope, m.question_id, m.value) as item, p.person
  from intake_raw.safe_packets p
  cross join lateral unnest(
    array['packet', 'activity', 'is_submitted', 'is_archived', 'created_year', 'submitted_year'],
    array[null, p.packet_id, p.packet_id, p.packet_id, p.packet_id, p.packet_id],
    array[null, null, null, null, null, null]::text[],
    array[p.packet_id, coalesce(p.activity, ''), p.is_submitted::text, p.is_archived::text, coalesce(p.created_year::text, ''), coalesce(p.submitted_year::text, '')]
  ) m (kind, scope, question_id, value)
)
/* the groups of members */;

comment on view intake_raw.safe_packet_groups is 'Values of columns of packet responses: of how many people, and whether intake_safe_harbor shows them.';
