-- What a patient is described with is shown as far as at least eleven patients share it: first all of it, then without the
-- birth year, the ZIP area, the state, the sex. Patients who share not even the age band with enough others have no description.
-- Ages are those of the end of the year: one that changed on a birthday would reveal it to whoever looks every day.
create or replace view intake_safe_harbor.patients with (security_barrier = true) as
with aged as (
  select p.team_id, p.patient, p.tags, p.sex_at_birth, p.state, p.zip3,
    case when years.count < 90 then p.birth_year end as birth_year,
    case when years.count < 90 then format('%s-%s', years.count / 10 * 10, years.count / 10 * 10 + 9)
      when p.age_band is not null then '90+' end as age_band
  from intake_analytics.patients p
  cross join lateral (select extract(year from now() at time zone 'UTC')::int - p.birth_year as count) years
), zero as (
  select p.*, count(*) over (partition by team_id, age_band, birth_year, sex_at_birth, state, zip3) as n0
  from aged p
), one as (
  select zero.*, count(*) filter (where n0 < 11) over (partition by team_id, age_band, sex_at_birth, state, zip3) as n1 from zero
), two as (
  select one.*, count(*) filter (where greatest(n0, n1) < 11) over (partition by team_id, age_band, sex_at_birth, state) as n2 from one
), three as (
  select two.*, count(*) filter (where greatest(n0, n1, n2) < 11) over (partition by team_id, age_band, sex_at_birth) as n3 from two
), four as (
  select three.*, count(*) filter (where greatest(n0, n1, n2, n3) < 11) over (partition by team_id, age_band) as n4 from three
), described as (
  select four.*, case when n0 >= 11 then 5 when n1 >= 11 then 4 when n2 >= 11 then 3 when n3 >= 11 then 2 when n4 >= 11 then 1 else 0 end as parts
  from four
), known_tags as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from intake_raw.safe_tag_groups where is_shown
)
select d.team_id, intake_ops.research_code(k.inner_pad, k.outer_pad, 'patient', d.team_id, d.patient) as patient,
  case when d.parts >= 5 then d.birth_year end as birth_year,
  case when d.parts >= 1 then d.age_band end as age_band,
  case when d.parts >= 4 then d.zip3 end as zip3,
  case when d.parts >= 3 then d.state end as state,
  case when d.parts >= 2 then d.sex_at_birth end as sex_at_birth,
  array(
    select tag from unnest(d.tags) with ordinality as own (tag, place)
    where (select items from known_tags) ? intake_ops.group_item(d.team_id, 'tag', null, null, tag)::text order by place
  ) as tags
from described d
cross join intake_ops.analytics_key k;

comment on view intake_safe_harbor.patients is 'One row per patient who is not deleted. At least eleven patients share each description.';
comment on column intake_safe_harbor.patients.team_id is 'The team (intake_safe_harbor.teams).';
comment on column intake_safe_harbor.patients.patient is 'Code of the patient; not the pseudonym of intake_analytics.';
comment on column intake_safe_harbor.patients.birth_year is 'Year of birth; null from age 90, and where fewer than eleven patients share the description.';
comment on column intake_safe_harbor.patients.age_band is 'Age at the end of this year, in decades; 90+ for 90 and over.';
comment on column intake_safe_harbor.patients.zip3 is 'First three digits of the ZIP code; 000 for areas of 20,000 people or fewer (docs/safe-harbor.md).';
comment on column intake_safe_harbor.patients.state is 'US state or territory, two letters.';
comment on column intake_safe_harbor.patients.sex_at_birth is 'Female, Male, Intersex, Other or Unknown.';
comment on column intake_safe_harbor.patients.tags is 'Those of the tags that somebody decided to show to researchers (classify tag), in the service''s order; none that fewer than eleven patients have, or lack.';
