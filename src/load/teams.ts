/** The rows of intake.teams. */
import type { Kysely } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'

/** The team's number in this warehouse, given to it when it is first named. */
export async function teamIdOf(db: Kysely<Warehouse>, name: string): Promise<number> {
  const held = await db
    .selectFrom('intake.teams')
    .select('team_id')
    .where('name', '=', name)
    .executeTakeFirst()
  if (held !== undefined) return held.team_id
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

/** Notes what the service last called its environment, unless that is no name; writes only when it changed. */
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
