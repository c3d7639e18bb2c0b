/**
 * Which logins see which teams (intake_ops.access), where the warehouse holds several.
 *
 * Invariant: grants name only logins and teams that exist; the filter itself is in
 * every view and policy (intake_ops.teams_of), not here.
 */
import { type Kysely, sql } from 'kysely'
import { UsageError } from '../core/errors.ts'
import { selectTeams } from '../core/which-team.ts'
import { SQLSTATE, sqlstateOf } from '../warehouse/sqlstate.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import { readTeams, type WarehouseTeam } from '../warehouse/teams.ts'

export interface Access {
  readonly login: string
  readonly team: string
  /** ISO 8601. */
  readonly granted_at: string
  /** False when the role was dropped since, also where another has its name. */
  readonly exists: boolean
}

export interface Granted {
  /** False when it was granted before. */
  readonly changed: boolean
  /** Whether the login has a role that can read any table. */
  readonly hasRole: boolean
  /** The search path that the login was given in this database; null if it has one of its own, or it could not be set. */
  readonly searchPath: string | null
}

export async function grantAccess(db: Kysely<Warehouse>, login: string, team: string): Promise<Granted> {
  const { teamId } = await teamNamed(db, team, 'TEAM')
  const { rows: roles } = await sql<{ has_role: boolean }>`
    select exists (
      select from pg_roles granted
      where granted.rolname in ('intake_analyst', 'intake_clinical', 'intake_researcher')
        and pg_has_role(login.oid, granted.oid, 'member')
    ) as has_role
    from pg_roles login where login.rolname = ${login}`.execute(db)
  if (roles[0] === undefined) {
    throw new UsageError(
      'LOGIN is not a role of this Postgres server',
      'create it first: create role … login in role intake_analyst',
      'LOGIN',
    )
  }
  const { rows } = await sql`
    insert into intake_ops.access as stored (login, team_id) values (${login}, ${teamId})
    on conflict (login, team_id) do update set login_oid = excluded.login_oid, granted_at = excluded.granted_at
      where stored.login_oid is distinct from excluded.login_oid
    returning login`.execute(db)
  return { changed: rows.length > 0, hasRole: roles[0].has_role, searchPath: await giveSearchPath(db, login) }
}

/**
 * A role's settings are not those of its members, so each login gets the path of its role: `\d` then lists the views that
 * matter. A login that writes, a superuser, and one with a path of its own in this database are left as they are.
 */
async function giveSearchPath(db: Kysely<Warehouse>, login: string): Promise<string | null> {
  const { rows } = await sql<{ database: string; path: string }>`
    select current_database() as database,
      case when pg_has_role(login.oid, 'intake_clinical', 'member') then 'intake, intake_analytics, public'
        when pg_has_role(login.oid, 'intake_analyst', 'member') then 'intake_analytics, public'
        else 'intake_safe_harbor, public' end as path
    from pg_roles login
    where login.rolname = ${login} and login.rolcanlogin and not login.rolsuper
      and exists (
        select from pg_roles granted
        where granted.rolname in ('intake_analyst', 'intake_clinical', 'intake_researcher')
          and pg_has_role(login.oid, granted.oid, 'member')
      )
      and not pg_has_role(login.oid, 'intake_loader', 'member')
      and not exists (
        select from pg_db_role_setting own cross join unnest(own.setconfig) as setting
        where own.setrole = login.oid and setting like 'search_path=%'
          and own.setdatabase in (0, (select oid from pg_database where datname = current_database()))
      )`.execute(db)
  const [own] = rows
  if (own === undefined) return null
  try {
    await sql`alter role ${sql.id(login)} in database ${sql.id(own.database)} set search_path = ${sql.raw(own.path)}`.execute(
      db,
    )
    return own.path
  } catch (error) {
    if (sqlstateOf(error) === SQLSTATE.insufficientPrivilege) return null
    throw error
  }
}

/** False when there was nothing to revoke. The login may be gone already. */
export async function revokeAccess(db: Kysely<Warehouse>, login: string, team: string): Promise<boolean> {
  const { teamId } = await teamNamed(db, team, 'TEAM')
  const { rows } = await sql`
    delete from intake_ops.access where login = ${login} and team_id = ${teamId} returning login`.execute(db)
  return rows.length > 0
}

export async function listAccess(db: Kysely<Warehouse>): Promise<readonly Access[]> {
  const { rows } = await sql<Access>`
    select access.login, team.name as team, to_json(access.granted_at) #>> '{}' as granted_at,
      exists (select from pg_roles where rolname = access.login and oid = access.login_oid) as exists
    from intake_ops.access access join intake.teams team using (team_id)
    order by access.login, team.name`.execute(db)
  return rows
}

/** The team that `argument` names. Throws `UsageError`. */
export async function teamNamed(
  db: Kysely<Warehouse>,
  name: string,
  argument: string,
): Promise<WarehouseTeam> {
  return selectTeams(await readTeams(db), name, 'warehouse', argument)[0]!
}
