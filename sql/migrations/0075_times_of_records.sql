-- The times and dates of stored payloads, read as a load reads them, for views of states that have no table.

create function intake_raw.time_of(written text) returns timestamptz language plpgsql immutable strict parallel safe as $$
begin
  if written !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?\s?(Z|z|[-+][0-9]{2}(:?[0-9]{2})?)?)?$' then
    return null;
  end if;
  written := replace(written, ',', '.');
  -- Without a zone it is UTC.
  return (written || case when written ~ '([Zz]|[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?\s?[-+][0-9]{2}(:?[0-9]{2})?)$'
    then '' else 'Z' end)::timestamptz;
exception when others then return null;
end
$$;
comment on function intake_raw.time_of(text) is 'An ISO 8601 time as a load reads it, in UTC without a zone; null for any other text.';

create function intake_raw.date_of(written text) returns date language plpgsql immutable strict parallel safe as $$
begin
  if written !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' then
    return null;
  end if;
  return written::date;
exception when others then return null;
end
$$;
comment on function intake_raw.date_of(text) is 'An ISO date as a load reads it; null for any other text.';
