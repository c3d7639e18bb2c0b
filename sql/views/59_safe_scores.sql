-- A band of fewer than eleven patients is hidden, and with it the smallest of the others; a score is hidden with its band. To
-- have none is a value too.
create or replace view intake_safe_harbor.scores with (security_barrier = true) as
with known as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_response_groups where is_shown and kind in ('form', 'is_submitted', 'submitted_year')
), scored as materialized (
  select * from intake_raw.safe_scores
), counted as (
  select team_id, form_id, instrument, coalesce(band, '') as band, count(distinct person) as people
  from scored where person is not null
  group by team_id, form_id, instrument, band
), bands as materialized (
  select team_id, form_id, instrument, band,
    row_number() over (scope order by people, band) > count(*) filter (where people < 11) over scope
      + case when min(people) over scope < 11 then 1 else 0 end as is_shown
  from counted
  window scope as (partition by team_id, form_id, instrument)
)
select s.team_id, intake_ops.research_code(k.inner_pad, k.outer_pad, 'response', s.team_id, s.response_id) as response_id,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'patient', s.team_id, s.patient) as patient,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'form', s.team_id, s.form_id) as form_id, s.form,
  case when (select items from known) ? hashtextextended(s.submitted_year::text, s.form_item # 5)::text
    and (select items from known) ? hashtextextended(s.is_submitted::text, s.form_item # 1)::text
    then s.submitted_year end as submitted_year,
  s.instrument, s.title, s.items,
  case when s.is_common then s.score end as score,
  case when s.is_common then s.band end as band
from (
  select scored.*, (team_id, form_id, instrument, band) in (select team_id, form_id, instrument, band from bands where is_shown) as is_common
  from scored
) s
cross join intake_ops.analytics_key k
where case when (select items from known) ? s.form_item::text then true end;

comment on view intake_safe_harbor.scores is 'One row per response and instrument that its form asks; also of responses without a score, so that nobody can tell who has none.';
comment on column intake_safe_harbor.scores.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.scores.response_id is 'Code of the response (intake_safe_harbor.responses).';
comment on column intake_safe_harbor.scores.patient is 'Code of the patient (intake_safe_harbor.patients).';
comment on column intake_safe_harbor.scores.form_id is 'Code of the form.';
comment on column intake_safe_harbor.scores.form is 'Name of the form as it is now.';
comment on column intake_safe_harbor.scores.submitted_year is 'Year in which the response was submitted.';
comment on column intake_safe_harbor.scores.instrument is 'Short name of the instrument, such as phq-9.';
comment on column intake_safe_harbor.scores.title is 'Full name of the instrument.';
comment on column intake_safe_harbor.scores.items is 'Items of the instrument.';
comment on column intake_safe_harbor.scores.score is 'Sum of the points; null where an item is hidden, or the band, or there is none.';
comment on column intake_safe_harbor.scores.band is 'What the score means, where at least eleven patients share it.';
