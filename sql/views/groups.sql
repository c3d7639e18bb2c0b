, own as (
  select kind, set, item, person from members where item is not null and person is not null group by kind, set, item, person
), counted as (
  select own.*, count(*) over (partition by kind, set, item) as people from own
), placed as (
  select counted.*, dense_rank() over (partition by kind, set order by people, item) as place from counted
), met as (
  select placed.*, min(place) over (partition by kind, set, person) as first_place from placed
), summed as (
  select kind, set, item, place, min(people) as people, count(*) filter (where first_place = place) as further
  from met
  group by kind, set, item, place
), covered as (
  select summed.*,
    sum(further) over (partition by kind, set order by place) as covers,
    count(*) filter (where people < 11) over (partition by kind, set) as small,
    count(*) over (partition by kind, set) as values
  from summed
)
select kind, set, item, people,
  small = 0 or place > coalesce(
    min(place) filter (where covers >= 11 and place >= greatest(small, 2)) over (partition by kind, set),
    values
  ) as is_shown
from covered
