-- Responses as researchers may see them, but for the groups that are too small. A duration is in whole hours, up to 30 days, and
-- only where it begins and ends in one year: next to two years it would reveal a date. A response that was not submitted has a
-- place in the order too: else the few without one would be known.
create or replace view intake_raw.safe_responses as
select r.team_id, r.response_id, r.patient, hashtextextended(r.patient, 0) as person,
  r.form_id, r.form, r.packet_id, r.packet, r.document_id, r.document,
  coalesce(r.is_submitted, false) as is_submitted, coalesce(r.is_skipped, false) as is_skipped, coalesce(r.is_archived, false) as is_archived,
  years.created as created_year, years.submitted as submitted_year,
  case when years.created = years.submitted then least(date_trunc('hour', r.time_to_submit), interval '720 hours') end as time_to_submit,
  case when r.patient is not null then
    row_number() over (
      partition by r.team_id, r.form_id, r.patient collate "C"
      order by (r.is_submitted and r.is_skipped is not true) desc nulls last, r.submitted_at, r.response_id
    )
  end::int as visit,
  intake_ops.group_item(r.team_id, 'form', null, null, coalesce(r.form_id, '')) as form_item
from intake_analytics.responses r
cross join lateral (
  select extract(year from r.created_at at time zone 'UTC')::int as created,
    extract(year from r.submitted_at at time zone 'UTC')::int as submitted
) years;

comment on view intake_raw.safe_responses is 'Responses for intake_safe_harbor, before small groups are hidden.';
