-- The values of columns that belong to enough people. A value of fewer than eleven is hidden; then as many larger ones are
-- hidden with it, the smallest first, as it takes for the hidden ones to be at least two values of at least eleven people. So
-- neither a count nor the difference from the whole is of fewer. Where that is not possible, all are hidden. The values of a
-- column are compared within one form, question, packet or message target (scope). No value is a value too: else the rows
-- without one would show how many there are.
create or replace view intake_raw.safe_response_groups as
with given as materialized (
  select * from intake_raw.safe_responses
), members as (
  select 'form' as kind, team_id::bigint as set, case when form_id is not null then form_item end as item, person from given
  union all
  select 'packet', team_id, intake_ops.group_item(team_id, 'packet', null, null, packet_id), person from given
  union all
  select 'document', team_id, intake_ops.group_item(team_id, 'document', null, null, document_id), person from given
  union all
  select 'is_submitted', form_item, hashtextextended(is_submitted::text, form_item # 1), person from given
  union all
  select 'is_skipped', form_item, hashtextextended(is_skipped::text, form_item # 2), person from given
  union all
  select 'is_archived', form_item, hashtextextended(is_archived::text, form_item # 3), person from given
  union all
  select 'created_year', form_item, hashtextextended(coalesce(created_year::text, ''), form_item # 4), person from given
  union all
  select 'submitted_year', form_item, hashtextextended(coalesce(submitted_year::text, ''), form_item # 5), person from given
  union all
  select 'visit', form_item, hashtextextended(coalesce(visit::text, ''), form_item # 6), person from given
)
/* the groups of members */;

comment on view intake_raw.safe_response_groups is 'Values of columns of responses: of how many people, and whether intake_safe_harbor shows them.';
