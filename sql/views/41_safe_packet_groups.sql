create or replace view intake_raw.safe_packet_groups as
with members as (
  select m.kind, intake_ops.group_item(p.team_id, m.kind, m.scope, m.question_id, '') as set,
    intake_ops.group_item(p.team_id, m.kind, m.scope, m.question_id, m.value) as item, p.person
  from intake_raw.safe_packets p
  cross join lateral (values
    ('packet', null, null, p.packet_id), ('activity', p.packet_id, null, coalesce(p.activity, '')),
    ('is_submitted', p.packet_id, null, p.is_submitted::text), ('is_archived', p.packet_id, null, p.is_archived::text),
    ('created_year', p.packet_id, null, coalesce(p.created_year::text, '')), ('submitted_year', p.packet_id, null, coalesce(p.submitted_year::text, ''))
  ) m (kind, scope, question_id, value)
)
/* the groups of members */;

comment on view intake_raw.safe_packet_groups is 'Values of columns of packet responses: of how many people, and whether intake_safe_harbor shows them.';
