/**
 * The rows of intake.teams, and the removed teams (intake_ops.removed_teams).
 *
 * Invariant: a removed team is restored only when a person starts a command with it in the configuration (`restoreTeam`),
 * never by a process that is already running.
 */
import { type Expression, type Kysely, type RawBuilder, sql } from 'kysely'
import { IntakeError } from '../core/errors.ts'
import type { Session } from '../warehouse/connect.ts'
import { tryLock, unlock } from '../warehouse/locks.ts'
import type { Warehouse } from '../warehouse/tables.ts'

/** The team's number in this warehouse, assigned on first use. Throws for a removed team. */
export async function teamIdOf(db: Kysely<Warehouse>, name: string): Promise<number> {
  const teamId = await numberOf(db, name)
  if ((await removedAmong(db, [teamId])).length > 0) throw removedError(name)
  return teamId
}

/** As `teamIdOf`; restores a team that was removed with its data kept, with its pending events. */
export async function restoreTeam(session: Session, name: string): Promise<number> {
  const teamId = await numberOf(session.db, name)
  if ((await removedAmong(session.db, [teamId])).length === 0) return teamId
  // The command that removes a team holds this lock.
  if (!(await tryLock(session, 'team', name))) throw beingRemoved(name)
  try {
    await session.db.transaction().execute(async (transaction) => {
      const { rows } = await sql<{ data: string }>`
        select data from intake_ops.removed_teams where team_id = ${teamId} for update`.execute(transaction)
      if (rows[0] === undefined) return
      if (rows[0].data === 'deleted') throw halfDeleted(name)
      await sql`
        update intake_raw.inbox set status = 'pending', due_at = null, settled_at = null
        where team_id = ${teamId} and status = 'dead' and due_at = 'infinity'`.execute(transaction)
      await sql`delete from intake_ops.removed_teams where team_id = ${teamId}`.execute(transaction)
    })
  } finally {
    await unlock(session, 'team', name)
  }
  return teamId
}

async function numberOf(db: Kysely<Warehouse>, name: string): Promise<number> {
  const known = await db
    .selectFrom('intake.teams')
    .select('team_id')
    .where('name', '=', name)
    .executeTakeFirst()
  if (known !== undefined) return known.team_id
  await db
    .insertInto('intake.teams')
    .values({ name })
    .onConflict((c) => c.column('name').doNothing())
    .execute()
  const { team_id } = await db
    .selectFrom('intake.teams')
    .select('team_id')
    .where('name', '=', name)
    .executeTakeFirstOrThrow()
  return team_id
}

/** The removed ones of these teams. */
export async function removedAmong(
  db: Kysely<Warehouse>,
  teamIds: readonly number[],
): Promise<readonly number[]> {
  const { rows } = await sql<{ team_id: number }>`
    select team_id from intake_ops.removed_teams where team_id = any (${teamIds}::smallint[])`.execute(db)
  return rows.map(({ team_id }) => team_id)
}

/** Whether the team with this number was removed. `teamId` is outside the subquery, whose columns it could name otherwise. */
export function isRemoved(teamId: Expression<unknown>): RawBuilder<boolean> {
  return sql`${teamId} = any (array(select removed.team_id from intake_ops.removed_teams removed))`
}

export function isRemovedError(error: unknown): boolean {
  return error instanceof IntakeError && error.code === 'team_removed'
}

function removedError(name: string): IntakeError {
  return new IntakeError(`team ${name} was removed from this warehouse`, {
    code: 'team_removed',
    verdict: 'stop',
    hint: 'remove it from the configuration; to restore it instead, run a backfill or restart serve with it in the configuration',
  })
}

function beingRemoved(name: string): IntakeError {
  return new IntakeError(`team ${name} is being removed`, {
    code: 'held_by_another_run',
    verdict: 'stop',
    hint: 'wait until teams remove has ended',
  })
}

function halfDeleted(name: string): IntakeError {
  return new IntakeError(`team ${name} is partly deleted`, {
    code: 'team_removed',
    verdict: 'stop',
    hint: `remove it from the configuration, and complete the removal with intake-sync teams remove ${name} --delete-data; after that the name can be used again`,
  })
}

/** Stores the service's name of its environment, if it is a valid name and has changed. */
export async function noteEnvironment(
  db: Kysely<Warehouse>,
  teamId: number,
  environment: string,
): Promise<void> {
  if (!/^[\w.-]{1,40}$/.test(environment)) return
  await db
    .updateTable('intake.teams')
    .set({ environment })
    .where('team_id', '=', teamId)
    .where('environment', 'is distinct from', environment)
    .execute()
}

/** Stores the time zone of a team, if it changed and Postgres knows it; its days are those of daily figures. */
export async function noteTimezone(db: Kysely<Warehouse>, teamId: number, timezone: string): Promise<void> {
  const { rows } = await sql`
    select from intake.teams where team_id = ${teamId} and timezone <> ${timezone}`.execute(db)
  if (rows.length === 0) return
  await sql`
    update intake.teams set timezone = ${timezone}
    where team_id = ${teamId} and exists (select from pg_timezone_names where lower(name) = lower(${timezone}))`.execute(
    db,
  )
}
