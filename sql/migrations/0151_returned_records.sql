-- A record is in the change feed once: by its row, or as removed. One that is removed and comes back leaves its row as removed,
-- or a reader would take that for the later change: transactions are numbered when they begin to write, and one that began
-- earlier may bring the record back after one that began later has removed it.

create function intake_raw.forget_removed_records() returns trigger language plpgsql as $$
begin
  delete from intake_raw.removed_records where ctid = any (array(
    select removed.ctid
    from fresh cross join intake_ops.analytics_key k
    cross join lateral (
      select known.ctid from intake_raw.removed_records known
      where (known.team_id, known.stream, known.key)
        = (fresh.team_id, fresh.stream, intake_ops.pseudonym(k.inner_pad, k.outer_pad, fresh.team_id, fresh.id))
      offset 0
    ) removed
    where exists (
      select from intake_raw.removed_records other
      where (other.team_id, other.stream) = (fresh.team_id, fresh.stream)
    )
  ));
  return null;
end
$$;
comment on function intake_raw.forget_removed_records() is 'Takes records that came back off the list of removed ones.';

create trigger forget_removed after insert on intake_raw.records
  referencing new table as fresh for each statement execute function intake_raw.forget_removed_records();
