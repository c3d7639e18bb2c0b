-- The wide views of exports get a schema of their own: an analyst who lists intake_analytics sees the views that matter. They
-- are moved and not made again, so that what others built on them stays.

create schema intake_exports;
comment on schema intake_exports is 'Wide views of exports, one column per question: what intake_analytics.export_answers shows, nothing more.';
comment on table intake_raw.wide_views is 'The wide view of each form (in intake) and each export (in intake_exports).';

do $$
declare
  wide record;
begin
  for wide in
    select c.relname from intake_raw.wide_views v
    join pg_class c on c.relname = v.view_name and c.relkind = 'v' and c.relnamespace = 'intake_analytics'::regnamespace
    where v.kind = 'export' order by 1
  loop
    execute format('alter view intake_analytics.%I set schema intake_exports', wide.relname);
  end loop;
end
$$;
