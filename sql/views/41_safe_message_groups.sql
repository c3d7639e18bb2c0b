create or replace view intake_raw.safe_message_groups as
with members as (
  select m.kind, intake_ops.group_item(s.team_id, m.kind, m.scope, m.question_id, '') as set,
    intake_ops.group_item(s.team_id, m.kind, m.scope, m.question_id, m.value) as item, s.person
  from intake_raw.safe_messages s
  cross join lateral (values
    ('target', null, null, s.target_id), ('channel', s.target_id, null, coalesce(s.channel, '')), ('status', s.target_id, null, coalesce(s.status, '')),
    ('is_sent', s.target_id, null, s.is_sent::text), ('is_opened', s.target_id, null, s.is_opened::text),
    ('is_answered', s.target_id, null, s.is_answered::text), ('sent_year', s.target_id, null, coalesce(s.sent_year::text, ''))
  ) m (kind, scope, question_id, value)
)
/* the groups of members */;

comment on view intake_raw.safe_message_groups is 'Values of columns of messages: of how many people, and whether intake_safe_harbor shows them.';
