/**
 * `intake-sync teams`: lists the teams of the warehouse, and removes one.
 *
 * Invariant: a team of the configuration is not removed, and no team without a choice between keeping and deleting
 * its data.
 */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { type Config, readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { type RemovedTeam, removeTeam } from '../../operate/remove-team.ts'
import { type ListedTeam, listTeams } from '../../warehouse/teams.ts'
import { type Context, ExitCode, printJson, requireWarehouse } from '../context.ts'
import { printable } from '../printable.ts'
import { answerTo, fittedTable, type Keyboard, paragraph } from '../terminal.ts'

interface Options {
  readonly keepData?: true
  readonly deleteData?: true
  readonly json?: true
}

export function teamsCommand(context: Context, keyboard: () => Keyboard = () => process.stdin): Command {
  const group = new Command('teams').description('the teams of the warehouse').addHelpText('after', HELP)
  group
    .command('list')
    .description('each team: number, environment, rows, pending events, last run')
    .option('--json', 'print one JSON document')
    .action((options: Options) => list(context, options))
  group
    .command('remove')
    .description('stop receiving and loading a team’s data')
    .argument('<name>', 'the team: see teams list')
    .option('--keep-data', 'keep the rows of the team')
    .option('--delete-data', 'permanently delete every row of the team')
    .option('--json', 'print one JSON document')
    .addHelpText('after', REMOVE_HELP)
    .action((name: string, options: Options) => remove(context, keyboard, name, options))
  return group
}

async function list(context: Context, { json }: Options): Promise<void> {
  const config = readConfig(context.env)
  await using warehouse = await requireWarehouse(context, config)
  await requireMigrated(warehouse.url)
  const teams = (await listTeams(warehouse.url)).map((team) => ({
    ...team,
    configured: isConfigured(config, team.name),
  }))
  if (json) {
    printJson(context, { teams })
    return
  }
  if (teams.length === 0) {
    context.stdout.write('no team yet: intake-sync backfill creates the first\n')
    return
  }
  const rows = teams.map((team) => [
    printable(team.name),
    team.team_id,
    team.environment ?? '',
    team.rows,
    team.pending_events,
    team.last_run_at === null ? 'never' : minute(team.last_run_at),
    stateOf(team),
  ])
  const header = ['team', 'id', 'environment', 'rows', 'pending', 'last run', '']
  context.stdout.write(fittedTable(context, [header, ...rows], 6))
}

type State = Pick<ListedTeam, 'removed_at' | 'data'> & { readonly configured: boolean }

export function stateOf({ removed_at, data, configured }: State): string {
  if (removed_at === null) return configured ? '' : 'not in the configuration'
  if (data === 'deleted') return 'partly deleted: run teams remove again'
  return `removed ${minute(removed_at)}, data kept`
}

function minute(instant: string): string {
  return instant.slice(0, 16).replace('T', ' ')
}

async function remove(
  context: Context,
  keyboard: () => Keyboard,
  name: string,
  options: Options,
): Promise<void> {
  if (options.keepData && options.deleteData) {
    throw new UsageError('--keep-data and --delete-data exclude each other', 'leave one out', '--keep-data')
  }
  const isGiven = options.keepData === true || options.deleteData === true
  if (!isGiven && keyboard().isTTY !== true) throw noChoice()
  const config = readConfig(context.env)
  if (isConfigured(config, name)) {
    throw new UsageError(
      `team ${name} is in the configuration: the next run would create it again`,
      'remove it from INTAKE_CONFIG (or unset INTAKE_TEAM and the credentials) in every process, restart serve, then try again',
      'NAME',
    )
  }
  await using warehouse = await requireWarehouse(context, config)
  const { url } = warehouse
  await requireMigrated(url)
  const data = await choice(context, keyboard, name, options)
  const removed = await removeTeam({ url, name, data, clock: systemClock, signal: context.signal })
  if (options.json) printJson(context, documentOf(name, data, removed))
  else context.stdout.write(textOf(context, config, name, data, removed))
}

/** A configuration that names no team has the team `default`, which does not count as configured. */
export function isConfigured({ namesTeams, ingestTeams }: Config, name: string): boolean {
  return namesTeams && ingestTeams.some((team) => team.name === name)
}

async function choice(
  context: Context,
  keyboard: () => Keyboard,
  name: string,
  { keepData, deleteData }: Options,
): Promise<'kept' | 'deleted'> {
  if (keepData) return 'kept'
  if (deleteData) return 'deleted'
  const question = `Keep the data of team ${printable(name)}, or delete every row? [keep/delete/N]`
  const answer = (await answerTo(context, keyboard(), question, noChoice())).toLowerCase()
  if (answer === 'keep') return 'kept'
  if (answer === 'delete') return 'deleted'
  context.stderr.write('nothing was removed\n')
  throw new ExitCode(1)
}

function noChoice(): UsageError {
  return new UsageError(
    'neither --keep-data nor --delete-data was given',
    'add --keep-data to keep the rows of the team, or --delete-data to delete them',
    '--keep-data',
    'confirmation_missing',
  )
}

function documentOf(name: string, data: 'kept' | 'deleted', removed: RemovedTeam): unknown {
  const { teamId, events, rows, tables, notes } = removed
  return { team: name, team_id: teamId, data, pending_events: events, deleted: { rows, tables }, notes }
}

export function textOf(
  context: Context,
  { inboxDays }: Config,
  name: string,
  data: 'kept' | 'deleted',
  { events, rows, tables, notes }: RemovedTeam,
): string {
  const waited = `${events} pending event(s) are dead`
  const lines =
    data === 'kept'
      ? [
          `removed: ${printable(name)}; its rows are kept`,
          `${waited}; their bytes stay for ${inboxDays} days, and they are pending again if the team is created again by then.`,
          'The next backfill with the team in its configuration creates it again and reads everything.',
        ]
      : [
          `removed: ${printable(name)}; ${rows} rows of ${tables.length} tables were deleted, including ${events} pending event(s)`,
          'Backups and logs of Postgres are not changed: let them expire (docs/operations.md).',
        ]
  return [...lines, ...notes, 'Delete its webhook at the service: further events are answered 404.']
    .map((line) => paragraph(context, line, 0))
    .join('')
}

const HELP = `
The first backfill or serve with a team in its configuration creates the team.
teams remove requires --keep-data or --delete-data.`

const REMOVE_HELP = `
First remove the team from the configuration of every process and restart serve;
otherwise the next start creates it again. After the removal its webhooks are
answered 404, it has no pending work, and only erase and explain still see it.
With --keep-data, the next backfill or serve with its name restores it. Safe
while serve runs. If a backfill, verify or replay of the team is running, the
command does nothing and exits with 3.`
