-- A login that is dropped and created again under its name is another role: it inherits nothing.

alter table intake_ops.access add column login_oid oid;
comment on column intake_ops.access.login_oid is 'The role itself: a login that was dropped and created again, or restored from a dump, has another one and sees nothing until it is granted again.';
update intake_ops.access set login_oid = (select oid from pg_roles where rolname = login);

-- Whoever grants, also an older version, names the login only.
create function intake_ops.note_login() returns trigger language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  new.login_oid := (select oid from pg_roles where rolname = new.login);
  return new;
end
$$;
comment on function intake_ops.note_login() is 'Notes which role a login is when it is granted a team.';
revoke all on function intake_ops.note_login() from public;
create trigger note_login before insert on intake_ops.access for each row execute function intake_ops.note_login();

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
    select a.team_id from intake_ops.access a
    where a.login = teams_of.login and a.team_id = any (teams)
      and a.login_oid = (select r.oid from pg_roles r where r.rolname = teams_of.login)
    order by a.team_id
  );
end
$$;
