create or replace view intake_raw.safe_message_groups as
with members as (
  select m.kind, intake_ops.group_item(s.team_id, m.kind, m.scope, m.question_id, '') as set,
    intake_ops.group_item(s.team_id, m.kind, m.scope, m.question_id, m.value) as item, s.person
  from intake_raw.safe_messages s
  cross join lateral unnest(
    array['target', 'channel', 'status', 'is_sent', 'is_opened', 'is_answered', 'sent_year'],
    array[null, s.target_id, s.target_id, s.target_id, s.target_id, s.target_id, s.target_id],
    array[null, null, null, null, null, null, null]::text[],
    array[s.target_id, coalesce(s.channel, ''), coalesce(s.status, ''), s.is_sent::text, s.is_opened::text, s.is_answered::text, coalesce(s.sent_year::text, '')]
  ) m (kind, scope, question_id, value)
)
/* the groups of members */;

comment on view intake_raw.safe_message_groups is 'Values of columns of messages: of how many people, and whether intake_safe_harbor shows them.';
