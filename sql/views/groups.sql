, rough as materialized (
  -- People are counted one by one only where they may be few: eleven bits that are set are of at least eleven people. Nothing is
  -- joined: the planner knows nothing of the numbers of rows, and may compare each with each.
  select kind, set, item, count(*) as rows, bit_count(bit_or(1::bigint << (person & 63)::int)::bit(64)) as least
  from members where item is not null and person is not null group by kind, set, item
), unsure as materialized (
  select coalesce(jsonb_object_agg(item, true), '{}') as items from rough where least < 11
), own as materialized (
  select kind, set, item, person
  from members
  where (select items <> '{}' from unsure) and (select items from unsure) ? item::text and person is not null
  group by kind, set, item, person
), counted as (
  select kind, set, item, max(rows) as rows, coalesce(max(people), max(least)) as people
  from (
    select kind, set, item, rows, least, null::bigint as people from rough
    union all
    select kind, set, item, null, null, count(*) from own group by kind, set, item
  ) both_counts
  group by kind, set, item
), enough as materialized (
  -- Sets whose few-people values belong to eleven people together.
  select coalesce(jsonb_object_agg(kind || ' ' || set, true), '{}') as sets
  from (
    select kind, set
    from (select own.*, count(*) over (partition by kind, set, item) as people from own) each
    where people < 11 group by kind, set having count(distinct person) >= 11
  ) several
), placed as (
  select counted.*, row_number() over (partition by kind, set order by people >= 11, rows, item) as place,
    count(*) filter (where people < 11) over (partition by kind, set) as small
  from counted
)
select kind, set, item, people,
  small = 0 or place > case when small > 1 and (select sets from enough) ? (kind || ' ' || set) then small else small + 1 end as is_shown
from placed
