-- How many rows of each export have their response, and how many of these responses changed since they were exported?
with exported as (
  select distinct team_id, export_id, form, row_number, response_id, completed_at, is_archived
  from intake_analytics.export_answers
)
select e.form, count(*)::int as rows, count(r.response_id)::int as with_response,
  count(*) filter (where r.is_archived is distinct from e.is_archived and r.response_id is not null)::int as archived_since
from exported e
left join intake_analytics.responses r using (team_id, response_id)
group by e.team_id, e.export_id, e.form
order by e.form, rows, with_response;
