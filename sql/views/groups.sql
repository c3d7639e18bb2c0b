, rough as materialized (
  -- People are counted one by one only where they may be few: eleven bits that are set are of at least eleven people.
  select kind, set, item, count(*) as rows, bit_count(bit_or(1::bigint << (person & 63)::int)::bit(64)) as least
  from members where item is not null and person is not null group by kind, set, item
), own as materialized (
  select kind, set, item, person
  from rough join members using (kind, set, item)
  where least < 11 and person is not null
  group by kind, set, item, person
), counted as materialized (
  select kind, set, item, rows, coalesce(exact.people, least) as people
  from rough left join (select kind, set, item, count(*) as people from own group by kind, set, item) exact using (kind, set, item)
), few as (
  select kind, set, count(distinct person) as people
  from counted join own using (kind, set, item) where counted.people < 11 group by kind, set
), placed as (
  select counted.*, row_number() over (partition by kind, set order by people >= 11, rows, item) as place,
    count(*) filter (where people < 11) over (partition by kind, set) as small
  from counted
)
select kind, set, item, placed.people,
  small = 0 or place > case when small > 1 and few.people >= 11 then small else small + 1 end as is_shown
from placed left join few using (kind, set)
