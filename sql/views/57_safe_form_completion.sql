-- Counted over rows that the same reader sees, so that a count reveals nothing more.
create or replace view intake_safe_harbor.form_completion with (security_barrier = true) as
with counted as (
  select team_id, form_id, form, count(*) as started,
    count(*) filter (where is_submitted and not is_skipped) as submitted,
    count(distinct patient) filter (where is_submitted and not is_skipped) as who_submitted,
    count(*) filter (where not is_skipped) as kept,
    count(*) filter (where is_skipped) as skipped, count(distinct patient) filter (where is_skipped) as who_skipped,
    count(*) filter (where not is_submitted) as open, count(distinct patient) filter (where not is_submitted) as who_open,
    count(*) filter (where is_archived) as archived, count(distinct patient) filter (where is_archived) as who_archived,
    count(is_submitted) = count(*) as knows_submitted, count(is_skipped) = count(*) as knows_skipped,
    count(is_archived) = count(*) as knows_archived,
    percentile_cont(0.5) within group (order by time_to_submit) filter (where is_submitted and not is_skipped) as median_time,
    min(created_year) as first_started_year, max(submitted_year) as last_submitted_year
  from intake_safe_harbor.responses
  where form_id is not null
  group by team_id, form_id, form
)
select team_id, form_id, form, started,
  case when knows_submitted and knows_skipped and who_submitted not between 1 and 10 then submitted end as submitted,
  case when knows_skipped and who_skipped not between 1 and 10 then skipped end as skipped,
  case when knows_submitted and who_open not between 1 and 10 then open end as open,
  case when knows_archived and who_archived not between 1 and 10 then archived end as archived,
  case when knows_submitted and knows_skipped and who_submitted not between 1 and 10
    then round(submitted::numeric / nullif(kept, 0), 4) end as share_submitted,
  case when who_submitted >= 11 then median_time end as median_time,
  first_started_year, last_submitted_year
from counted;

comment on view intake_safe_harbor.form_completion is 'One row per form that at least eleven patients have: how many responses were started, submitted, skipped.';
comment on column intake_safe_harbor.form_completion.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.form_completion.form_id is 'Code of the form.';
comment on column intake_safe_harbor.form_completion.form is 'Name of the form as it is now.';
comment on column intake_safe_harbor.form_completion.started is 'Responses.';
comment on column intake_safe_harbor.form_completion.submitted is 'Of these, submitted and not skipped; null where a part of the responses is of too few patients, as in the next three.';
comment on column intake_safe_harbor.form_completion.skipped is 'Of these, left out by the logic of a packet.';
comment on column intake_safe_harbor.form_completion.open is 'Of these, not submitted.';
comment on column intake_safe_harbor.form_completion.archived is 'Of these, archived.';
comment on column intake_safe_harbor.form_completion.share_submitted is 'Share of the responses that were not skipped that was submitted.';
comment on column intake_safe_harbor.form_completion.median_time is 'Median of time_to_submit of the submitted ones.';
comment on column intake_safe_harbor.form_completion.first_started_year is 'First year of a response that is shown.';
comment on column intake_safe_harbor.form_completion.last_submitted_year is 'Last year of a submission that is shown.';
