-- The newest times of records are kept, not looked for: every statement that writes a table of a stream appends what it
-- brought and took away, in the same transaction. Nobody waits for anybody: the newest time is the greatest that came, unless
-- as great a one went; then it is looked up, until serve sums the rows up.

create table intake_ops.newest_times (
  team_id      smallint not null,
  stream       text not null,
  newest       timestamptz,
  gone         timestamptz,
  ahead        timestamptz,
  newest_event timestamptz,
  gone_event   timestamptz
);
create index newest_times_by_stream on intake_ops.newest_times (team_id, stream);
comment on table intake_ops.newest_times is 'Changes of the newest times of records, which intake_analytics.freshness shows.';
comment on column intake_ops.newest_times.team_id is 'The team.';
comment on column intake_ops.newest_times.stream is 'The stream.';
comment on column intake_ops.newest_times.newest is 'Newest time of a record that was written; the greatest counts.';
comment on column intake_ops.newest_times.gone is 'Newest time of a record that was removed or got an earlier one. If no greater one was written, the newest has to be looked up.';
comment on column intake_ops.newest_times.ahead is 'Earliest time that was more than five minutes ahead of the clock. Once it is not, the newest has to be looked up.';
comment on column intake_ops.newest_times.newest_event is 'When a webhook event last changed a record; the greatest counts.';
comment on column intake_ops.newest_times.gone_event is 'As gone, of records that an event had changed last.';

-- Of a table with the columns that every stream has. A record's own time is that of the service, where the table has such a
-- column, as in src/streams/stream.ts. A time that is far ahead was never the newest, and is none if it goes.
create function intake_ops.keep_newest(of_stream text, of_table regclass) returns void language plpgsql as $keep$
declare
  own constant text := coalesce((
    select 'greatest(' || string_agg(attname, ', ' order by attname desc) || ', _deleted_at)' from pg_attribute
    where attrelid = of_table and attname in ('updated_at', 'created_at') and not attisdropped
  ), '_version');
  name constant text := 'note_newest_' || of_stream;
begin
  execute format($create$
    create function intake_ops.%1$I() returns trigger language plpgsql as $note$
    begin
      if tg_op = 'INSERT' then
        insert into intake_ops.newest_times (team_id, stream, newest, ahead, newest_event)
        select team_id, %2$L, max(%3$s) filter (where %3$s <= now() + interval '5 minutes'),
          min(%3$s) filter (where %3$s > now() + interval '5 minutes'), max(_loaded_at) filter (where _origin like 'event:%%')
        from current group by 1;
      elsif tg_op = 'UPDATE' then
        insert into intake_ops.newest_times (team_id, stream, newest, gone, ahead, newest_event, gone_event)
        select team_id, %2$L, came.newest, case when came.newest >= went.newest then null else went.newest end, ahead,
          came.event, case when came.event >= went.event then null else went.event end
        from (
          select team_id, max(%3$s) filter (where %3$s <= now() + interval '5 minutes') as newest,
            min(%3$s) filter (where %3$s > now() + interval '5 minutes') as ahead,
            max(_loaded_at) filter (where _origin like 'event:%%') as event
          from current group by 1
        ) came full join (
          select team_id, max(%3$s) filter (where %3$s <= clock_timestamp() + interval '1 day') as newest,
            max(_loaded_at) filter (where _origin like 'event:%%') as event
          from superseded group by 1
        ) went using (team_id);
      elsif tg_op = 'DELETE' then
        insert into intake_ops.newest_times (team_id, stream, gone, gone_event)
        select team_id, %2$L, max(%3$s) filter (where %3$s <= clock_timestamp() + interval '1 day'),
          max(_loaded_at) filter (where _origin like 'event:%%')
        from superseded group by 1;
      else
        delete from intake_ops.newest_times where stream = %2$L;
      end if;
      return null;
    end
    $note$
  $create$, name, of_stream, own);
  execute format('comment on function intake_ops.%I() is %L', name,
    'Appends to intake_ops.newest_times what a statement changes of ' || of_table || '.');
  execute format($create$
    create trigger newest_inserted after insert on %1$s
      referencing new table as current for each statement execute function intake_ops.%2$I();
    create trigger newest_updated after update on %1$s
      referencing old table as superseded new table as current for each statement execute function intake_ops.%2$I();
    create trigger newest_deleted after delete on %1$s
      referencing old table as superseded for each statement execute function intake_ops.%2$I();
    create trigger newest_truncated after truncate on %1$s for each statement execute function intake_ops.%2$I();
  $create$, of_table, name);
  execute format($fill$
    insert into intake_ops.newest_times (team_id, stream, newest, ahead, newest_event)
    select team_id, %2$L, max(%3$s) filter (where %3$s <= now() + interval '5 minutes'),
      min(%3$s) filter (where %3$s > now() + interval '5 minutes'), max(_loaded_at) filter (where _origin like 'event:%%')
    from %1$s group by 1
  $fill$, of_table, of_stream, own);
end
$keep$;
comment on function intake_ops.keep_newest(text, regclass) is 'Makes a table of a stream keep its newest times in intake_ops.newest_times.';

select intake_ops.keep_newest(stream, ('intake.' || stream)::regclass)
from unnest('{patients,forms,packets,documents,responses,messages,exports,packet_responses}'::text[]) stream;
