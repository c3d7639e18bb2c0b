/**
 * `intake-sync access`: which logins see which teams.
 *
 * Invariant: changes the teams that a login sees, never its roles: without a role a login sees nothing.
 */
import { Command } from 'commander'
import { type Access, grantAccess, listAccess, revokeAccess } from '../../analytics/access.ts'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { readTeams } from '../../warehouse/teams.ts'
import { type Context, printJson, requireWarehouse } from '../context.ts'
import { printable } from '../printable.ts'
import { fittedTable } from '../terminal.ts'

interface Options {
  readonly json?: true
}

export function accessCommand(context: Context): Command {
  const grant = named('grant', 'let a login see a team')
    .argument('<login>', 'a Postgres role that can log in, or one that others are members of')
    .argument('<team>', 'the team: see access list')
    .action((login: string, team: string, { json }: Options) =>
      withSession(context, async ({ db }) => {
        const { changed, hasRole, searchPath } = await grantAccess(db, login, team)
        if (!hasRole) {
          context.stderr.write(
            'note: the login has none of intake_analyst, intake_clinical and intake_researcher: grant it one of them\n',
          )
        }
        if (json) printJson(context, { login, team, changed, search_path: searchPath })
        else context.stdout.write(changed ? 'granted\n' : 'already granted\n')
      }),
    )
  const revoke = named('revoke', 'no longer let a login see a team')
    .argument('<login>', 'the Postgres role')
    .argument('<team>', 'the team: see access list')
    .action((login: string, team: string, { json }: Options) =>
      withSession(context, async ({ db }) => {
        const changed = await revokeAccess(db, login, team)
        if (json) printJson(context, { login, team, changed })
        else context.stdout.write(changed ? 'revoked\n' : 'was not granted\n')
      }),
    )
  const list = named('list', 'which logins see which teams').action(({ json }: Options) =>
    withSession(context, ({ db }) => printAccess(context, db, json)),
  )
  const group = new Command('access').description('which logins see which teams').addHelpText('after', HELP)
  for (const each of [grant, revoke, list]) group.addCommand(each)
  return group
}

async function printAccess(context: Context, db: Session['db'], json: true | undefined): Promise<void> {
  const teams = (await readTeams(db)).map(({ name }) => name)
  const access = await listAccess(db)
  const list = { teams, everybody: isSeenByAll(teams), access }
  if (json) printJson(context, list)
  else context.stdout.write(listText(context, list))
}

/** Without grants, for every login with a role. */
export const isSeenByAll = (teams: readonly string[]): boolean => teams.length < 2

interface AccessList {
  readonly teams: readonly string[]
  readonly everybody: boolean
  readonly access: readonly Access[]
}

export function listText(context: Context, { teams, everybody, access }: AccessList): string {
  const rows = access.map((each) => [
    printable(each.login),
    each.team,
    each.granted_at.slice(0, 16).replace('T', ' '),
    each.exists ? '' : 'role no longer exists',
  ])
  const table = rows.length === 0 ? '' : fittedTable(context, [['login', 'team', 'granted', ''], ...rows], 3)
  const end = everybody
    ? 'the warehouse has one team: every login with a role sees it'
    : `teams: ${teams.join(', ')}; a login sees the teams granted to it`
  return `${table}${end}\n`
}

function named(name: string, description: string): Command {
  return new Command(name).description(description).option('--json', 'print one JSON document')
}

async function withSession(context: Context, work: (session: Session) => Promise<void>): Promise<void> {
  await using warehouse = await requireWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  await using session = await openSession({ url: warehouse.url, purpose: 'access' })
  try {
    await work(session)
  } catch (error) {
    throw warehouseError(error)
  }
}

const HELP = `
The role intake_analyst lets a login read the views of intake_analytics; the
role intake_clinical adds the tables of intake; intake_researcher reads the
de-identified views of intake_safe_harbor only. Grant the roles in SQL. With
one team in the warehouse, the roles suffice. With several, a login sees only
the teams granted here; the owner of the tables and members of intake_loader
see all teams. grant also gives a login its role's search_path in this
database, unless it has one, so that \\d lists the views that matter.`
