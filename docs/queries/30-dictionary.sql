-- Which views and columns are there, and what does each contain?
select c.relname::text as view, a.attname::text as column, format_type(a.atttypid, a.atttypmod) as type,
  col_description(c.oid, a.attnum) as description
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'intake_analytics'::regnamespace and c.relkind = 'v'
order by 1, a.attnum;
