-- Loads and erasures of one team no longer wait for those of another, and only a team in which somebody was erased has its
-- records checked.

create index erasures_by_team on intake_ops.erasures (team_id);

drop function intake_ops.hold_erasures();
-- A statement of its own within the function: it has to see what was committed while it waited for the lock.
create function intake_ops.hold_erasures(of_team smallint) returns bytea language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(7204315, of_team);
  return (
    select key from intake_ops.erasure_key
    where exists (select from intake_ops.erasures where team_id = of_team)
  );
end
$$;
comment on function intake_ops.hold_erasures(smallint) is 'Keeps erasures of a team from being noted until the transaction ends; the key of their hashes, or null where the team has none.';
revoke all on function intake_ops.hold_erasures(smallint) from public;
