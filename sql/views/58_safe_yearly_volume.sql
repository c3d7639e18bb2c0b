-- Counted over rows that the same reader sees, so that a count reveals nothing more.
create or replace view intake_safe_harbor.yearly_volume with (security_barrier = true) as
with happened as (
  select team_id, created_year as year, form_id, form, patient, 'asked' as what from intake_safe_harbor.responses
  union all
  select team_id, submitted_year, form_id, form, patient, 'submitted' from intake_safe_harbor.responses where is_submitted and not is_skipped
  union all
  select team_id, sent_year, form_id, form, patient, 'sent' from intake_safe_harbor.message_outcomes
), counted as (
  select team_id, year, form_id, form, what, count(*) as times, count(distinct patient) as people
  from happened
  where year is not null and form_id is not null
  group by team_id, year, form_id, form, what
)
select team_id, year, form_id, form,
  sum(times) filter (where what = 'asked' and people >= 11)::bigint as responses_asked,
  sum(times) filter (where what = 'submitted' and people >= 11)::bigint as responses_submitted,
  sum(times) filter (where what = 'sent' and people >= 11)::bigint as messages_sent
from counted
where people >= 11
group by team_id, year, form_id, form;

comment on view intake_safe_harbor.yearly_volume is 'Responses and messages of each form and year, where at least eleven patients are behind a number; else it is null.';
comment on column intake_safe_harbor.yearly_volume.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.yearly_volume.year is 'The year (UTC).';
comment on column intake_safe_harbor.yearly_volume.form_id is 'Code of the form.';
comment on column intake_safe_harbor.yearly_volume.form is 'Name of the form.';
comment on column intake_safe_harbor.yearly_volume.responses_asked is 'Responses created in the year.';
comment on column intake_safe_harbor.yearly_volume.responses_submitted is 'Responses submitted in the year.';
comment on column intake_safe_harbor.yearly_volume.messages_sent is 'Messages for the form sent in the year.';
