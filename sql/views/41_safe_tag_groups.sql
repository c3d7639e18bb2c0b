-- To lack a tag is a value too: that a few patients lack it says as much of them as that a few have it.
create or replace view intake_raw.safe_tag_groups as
with members as (
  select 'tag' as kind, intake_ops.group_item(p.team_id, 'tag', null, null, t.name) as set,
    intake_ops.group_item(p.team_id, case when t.name = any (p.tags) then 'tag' else 'no tag' end, null, null, t.name) as item,
    hashtextextended(p.patient, 0) as person
  from intake_analytics.patients p
  join intake_ops.research_tags t on t.team_id = p.team_id
)
/* the groups of members */;

comment on view intake_raw.safe_tag_groups is 'Tags that researchers may see, and the lack of them: of how many people, and whether intake_safe_harbor shows them.';
