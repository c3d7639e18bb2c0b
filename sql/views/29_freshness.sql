create or replace view intake_analytics.freshness with (security_barrier = true) as
select t.team_id, t.name as team, newest.stream, newest.newest_record_at, last_run.at as last_run_at,
  now() - greatest(last_run.at, newest.last_event_at) as lag, newest.last_event_at
from intake.teams t
cross join lateral (
  -- each stream: its name, the newest time of a record, the last event, as they are kept (src/analytics/views.ts)
) newest
left join lateral (
  select max(run.finished_at) as at
  from intake_ops.run_streams part
  join intake_ops.runs run using (run_id)
  where part.team_id = t.team_id and part.stream = newest.stream and part.status = 'succeeded'
) last_run on true
where t.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.freshness is 'One row per team and stream: how current the data is.';
comment on column intake_analytics.freshness.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.freshness.team is 'Name of the team.';
comment on column intake_analytics.freshness.stream is 'The stream: patients, forms, responses and so on.';
comment on column intake_analytics.freshness.newest_record_at is 'Newest time that a record has: when the service created or changed it; where records have no such time, when one was first read.';
comment on column intake_analytics.freshness.last_run_at is 'When the last successful run of the stream ended.';
comment on column intake_analytics.freshness.lag is 'Time since then, or since the last event if that was later.';
comment on column intake_analytics.freshness.last_event_at is 'When a webhook event last changed a record of the stream.';
