/** The roles with which commands read the warehouse for somebody else. */
import type pg from 'pg'
import { IntakeError } from '../core/errors.ts'
import type { Session } from '../warehouse/connect.ts'
import { SQLSTATE, sqlstateOf, warehouseError } from '../warehouse/sqlstate.ts'
import type { Context } from './context.ts'

/** `schema` has the reader's views; `path` are the schemas that the reader finds without naming them. */
export const READERS = {
  analyst: { role: 'intake_analyst', schema: 'intake_analytics', path: 'intake_analytics' },
  clinical: { role: 'intake_clinical', schema: 'intake', path: 'intake, intake_analytics' },
  researcher: { role: 'intake_researcher', schema: 'intake_safe_harbor', path: 'intake_safe_harbor' },
} as const

export type Reader = keyof typeof READERS

/**
 * Gives the session the role of a reader, unless the login is such a reader and nothing more: then it keeps its own teams
 * (`access grant`). Returns whether the role was set. Throws where the login may not take it; says on stderr where the
 * reader sees no team.
 */
export async function takeRole(context: Context, { client }: Session, reader: Reader): Promise<boolean> {
  const { role } = READERS[reader]
  const { rows } = await client.query<{ is_only_reader: boolean }>(IS_ONLY_READER, [role])
  const [login] = rows
  if (login === undefined) throw roleMissing(reader)
  if (!login.is_only_reader) {
    await client.query(`set role ${role}`).catch((error: unknown) => {
      throw sqlstateOf(error) === SQLSTATE.insufficientPrivilege ? roleRefused(reader) : warehouseError(error)
    })
  }
  await noteTeams(context, client, reader)
  return !login.is_only_reader
}

/** Whether the login has the role $1, and of the roles of the warehouse only those that $1 has too. */
const IS_ONLY_READER = `
  select pg_has_role(reader.oid, 'usage') and not exists (
    select from pg_roles other
    where (other.rolname in ('intake_loader', 'intake_clinical', 'intake_analyst', 'intake_researcher')
        or other.oid = (select nspowner from pg_namespace where nspname = 'intake'))
      and pg_has_role(other.oid, 'usage') and not pg_has_role(reader.oid, other.oid, 'usage')
  ) as is_only_reader
  from pg_roles reader where reader.rolname = $1`

async function noteTeams(context: Context, client: pg.Client, reader: Reader): Promise<void> {
  const views = reader === 'researcher' ? READERS.researcher.schema : READERS.analyst.schema
  const { rows } = await client
    .query<{ login: string; sees: boolean }>(
      `select current_user as login, exists (select from ${views}.teams) as sees`,
    )
    .catch(() => ({ rows: [] }))
  const { login, sees } = rows[0] ?? { login: '', sees: true }
  if (sees) return
  context.stderr.write(
    `note: ${login} sees no team, so the tables look empty: intake-sync access grant ${login} TEAM\n`,
  )
}

function roleRefused(reader: Reader): IntakeError {
  const { role } = READERS[reader]
  return new IntakeError(`the login of the warehouse may not take the role ${role}`, {
    code: 'role_refused',
    verdict: 'stop',
    hint: `grant ${role} to it, or leave out --as ${reader}`,
  })
}

function roleMissing(reader: Reader): IntakeError {
  const { role } = READERS[reader]
  return new IntakeError(`this warehouse has no role ${role}`, {
    code: 'role_missing',
    verdict: 'stop',
    hint: 'run intake-sync migrate as a superuser, or as a user that may create and grant roles',
  })
}
