create or replace view intake_analytics.daily_volume with (security_barrier = true) as
with happened as (
  select team_id, form_id, created_at as at, 1 as asked, 0 as submitted, 0 as sent
  from intake.responses where _deleted_at is null and created_at is not null
  union all
  select team_id, form_id, submitted_at, 0, 1, 0
  from intake.responses where _deleted_at is null and is_submitted and is_skipped is not true and submitted_at is not null
  union all
  select team_id, form_id, sent_at, 0, 0, 1
  from intake.messages where _deleted_at is null and sent_at is not null
), counted as (
  select h.team_id, h.form_id, (h.at at time zone t.timezone)::date as day,
    sum(asked) as responses_asked, sum(submitted) as responses_submitted, sum(sent) as messages_sent
  from happened h
  join intake.teams t using (team_id)
  where h.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[])
  group by 1, 2, 3
)
select c.team_id, c.day, c.form_id, f.name as form, c.responses_asked, c.responses_submitted, c.messages_sent
from counted c
left join intake.forms f on f.team_id = c.team_id and f.id = c.form_id;

comment on view intake_analytics.daily_volume is 'One row per day and form: what was requested, submitted and sent.';
comment on column intake_analytics.daily_volume.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.daily_volume.day is 'The day, in the time zone of the team (intake_analytics.teams).';
comment on column intake_analytics.daily_volume.form_id is 'The form; null for packets and documents.';
comment on column intake_analytics.daily_volume.form is 'Name of the form.';
comment on column intake_analytics.daily_volume.responses_asked is 'Responses that were asked for.';
comment on column intake_analytics.daily_volume.responses_submitted is 'Responses that were submitted, skipped ones not among them.';
comment on column intake_analytics.daily_volume.messages_sent is 'Messages that were sent.';
