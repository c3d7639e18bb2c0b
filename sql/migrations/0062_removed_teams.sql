-- Teams that a person removed (intake-sync teams remove). Nothing is stored for one of them, whichever process still has it
-- in its configuration: receiving and loading ask here, under a lock that the removal takes alone.

create table intake_ops.removed_teams (
  team_id     smallint primary key,
  name        text not null,
  data        text not null check (data in ('kept', 'deleted')),
  events      bigint not null default 0,
  removed_at  timestamptz not null default now(),
  finished_at timestamptz
);
comment on table intake_ops.removed_teams is 'Teams that were removed: nothing is received or loaded for them. The row of a deleted team stays, so that no process writes under its number again.';
comment on column intake_ops.removed_teams.team_id is 'Number of the team; of a deleted one no longer in intake.teams, and given to no other.';
comment on column intake_ops.removed_teams.name is 'Its name when it was removed.';
comment on column intake_ops.removed_teams.data is 'kept or deleted: what became of its tables.';
comment on column intake_ops.removed_teams.events is 'Events that were pending; kept ones are dead in the inbox until they are old, or pending again when the team is back.';
comment on column intake_ops.removed_teams.removed_at is 'When it was removed.';
comment on column intake_ops.removed_teams.finished_at is 'When the removal ended; null while it goes on, and where it was interrupted.';
comment on column intake_raw.inbox.due_at is 'Not to be tried again before; null for at once. Infinity: dead only because its team was removed.';

create or replace function intake_ops.hold_erasures(of_team smallint) returns bytea language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(7204315, of_team);
  if exists (select from intake_ops.removed_teams where team_id = of_team) then
    raise exception using errcode = 'IT001', message = 'the team was removed';
  end if;
  return (
    select key from intake_ops.erasure_key
    where exists (select from intake_ops.erasures where team_id = of_team)
  );
end
$$;
comment on function intake_ops.hold_erasures(smallint) is 'Keeps erasures of a team from being noted, and the team from being removed, until the transaction ends; the key of their hashes, or null where the team has none. Raises IT001 for a removed team.';

create function intake_raw.hold_inbox_of(team_ids smallint[]) returns smallint[] language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(7204316, team.id) from (select distinct unnest(team_ids) as id order by 1) as team;
  -- A statement of its own: it has to see what was committed while it waited for the locks.
  return array(select team_id from intake_ops.removed_teams where team_id = any (team_ids));
end
$$;
comment on function intake_raw.hold_inbox_of(smallint[]) is 'Keeps teams from being removed until the transaction ends; those that were. Called before events of them become pending.';
revoke all on function intake_raw.hold_inbox_of(smallint[]) from public;

-- Where a team was deleted and one is left, its readers are still those that were granted it, and not every login.
create or replace function intake_ops.teams_of(login text) returns smallint[] language plpgsql stable parallel safe
  security definer set search_path = pg_catalog, pg_temp as $$
declare
  teams smallint[] := array(
    select team.team_id from intake.teams team
    where not exists (
      select from intake_ops.removed_teams removed where removed.team_id = team.team_id and removed.data = 'deleted'
    )
    order by team.team_id
  );
begin
  if cardinality(teams) < 2 and not exists (select from intake_ops.removed_teams) or exists (
    select from pg_roles r
    where (r.rolname = 'intake_loader' or r.oid = (select nspowner from pg_namespace where nspname = 'intake'))
      and pg_has_role(login::name, r.oid, 'usage')
  ) then
    return teams;
  end if;
  return array(
    select a.team_id from intake_ops.access a where a.login = teams_of.login and a.team_id = any (teams)
    order by a.team_id
  );
end
$$;
