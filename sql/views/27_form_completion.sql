create or replace view intake_analytics.form_completion with (security_barrier = true) as
select r.team_id, r.form_id, f.name as form,
  count(*) as started,
  count(*) filter (where r.is_submitted and r.is_skipped is not true) as submitted,
  count(*) filter (where r.is_skipped) as skipped,
  count(*) filter (where r.is_submitted is not true) as open,
  count(*) filter (where r.is_archived) as archived,
  round(
    count(*) filter (where r.is_submitted and r.is_skipped is not true)::numeric
      / nullif(count(*) filter (where r.is_skipped is not true), 0), 4
  ) as share_submitted,
  percentile_cont(0.5) within group (order by r.submitted_at - r.created_at)
    filter (where r.is_submitted and r.is_skipped is not true and r.submitted_at >= r.created_at) as median_time,
  min(r.created_at) as first_started_at,
  max(r.submitted_at) as last_submitted_at
from intake.responses r
left join intake.forms f on f.team_id = r.team_id and f.id = r.form_id
where r._deleted_at is null and r.form_id is not null
  and r.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[])
group by r.team_id, r.form_id, f.name;

comment on view intake_analytics.form_completion is 'One row per form: how many responses were started, submitted and skipped, and how long they took.';
comment on column intake_analytics.form_completion.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.form_completion.form_id is 'The form.';
comment on column intake_analytics.form_completion.form is 'Name of the form.';
comment on column intake_analytics.form_completion.started is 'Responses that were asked for.';
comment on column intake_analytics.form_completion.submitted is 'Those that were filled in and submitted.';
comment on column intake_analytics.form_completion.skipped is 'Those that the logic of a packet left out.';
comment on column intake_analytics.form_completion.open is 'Those that are not submitted.';
comment on column intake_analytics.form_completion.archived is 'Those that staff archived.';
comment on column intake_analytics.form_completion.share_submitted is 'Share of submitted responses among those that were not skipped; 0 to 1.';
comment on column intake_analytics.form_completion.median_time is 'Median time from being asked to submission.';
comment on column intake_analytics.form_completion.first_started_at is 'When the first was asked for.';
comment on column intake_analytics.form_completion.last_submitted_at is 'When the last was submitted.';
