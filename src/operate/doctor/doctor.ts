/**
 * Looks at everything that has to be right before this works, and says of each thing what to do about it.
 *
 * Invariant: a check that fails keeps no other from being made; nothing is changed, and nothing of what is found in
 * records is told.
 */
import { existsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { sql } from 'kysely'
import { createTask } from 'node-cron'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { Session } from '../../warehouse/connect.ts'
import { type AlertsSet, alertsCheck } from './alerts.ts'
import { type Check, failed, failedBy, ok, warning } from './check.ts'
import { diskCheck, type Port, portCheck, serveAnswers } from './machine.ts'
import { lookAtService, type ServiceTeam } from './service.ts'
import { lookAtWarehouse } from './warehouse.ts'
import { inboxCheck, secretChecks } from './webhooks.ts'

export interface DoctorOptions {
  /** Of the warehouse; null where none was made yet. */
  readonly url: string | null
  /** Where an embedded warehouse keeps its data. */
  readonly dataDir: string | null
  /** All, those whose service cannot be asked among them. */
  readonly ingestTeams: readonly { readonly name: string; readonly webhookSecrets: readonly string[] }[]
  readonly teams: readonly (ServiceTeam & { readonly timezone: string })[]
  readonly encryptionKey: string | null
  readonly cron: string | null
  /** Left out: none are posted. */
  readonly alerts?: AlertsSet
  readonly webhook: Port
  readonly admin: Port
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  /** Free bytes of the disk that holds a path. */
  readonly freeBytes?: (path: string) => Promise<number>
}

export async function examine(options: DoctorOptions): Promise<readonly Check[]> {
  const checks: Check[] = []
  const { url } = options
  if (url === null) {
    const hint = 'run intake-sync migrate, or set DATABASE_URL'
    checks.push(warning('database', 'there is no warehouse yet; one is made when it is first needed', hint))
    checks.push(...(await rest(options, null)))
    return checks
  }
  const look = await lookAtWarehouse(url)
  checks.push(...look.checks)
  try {
    if (look.session !== null) checks.push(await guarded('disk', () => diskOf(look.session!, options)))
    const session = look.migrated ? look.session : null
    if (session !== null) checks.push(await guarded('time zones', () => zoneCheck(session, options)))
    checks.push(...(await rest(options, session)))
    return checks
  } finally {
    await look.session?.close()
  }
}

/** What needs no warehouse, or makes do without. */
async function rest(options: DoctorOptions, session: Session | null): Promise<readonly Check[]> {
  const known = session === null ? [] : await teamsHeld(session)
  // All at once: a service that does not answer is waited for by its own team alone.
  const services = await Promise.all(
    options.ingestTeams.map(({ name }) => {
      const suffix = options.ingestTeams.length > 1 ? ` of ${name}` : ''
      const held = known.find((team) => team.name === name)
      return serviceOf(options, name, held?.environment ?? null, suffix)
    }),
  )
  const checks: Check[] = services.flat()
  const secretTeams = options.ingestTeams.map(({ name, webhookSecrets }) => ({
    name,
    teamId: known.find((team) => team.name === name)?.teamId ?? null,
    configured: webhookSecrets.length,
  }))
  checks.push(...(await secretChecks(session, secretTeams, options.encryptionKey)))
  if (session !== null) checks.push(await guarded('inbox', () => inboxCheck(session)))
  checks.push(await scheduleCheck(options.cron))
  checks.push(await guarded('alerts', () => alertsCheck(session, options.alerts ?? null)))
  const isOurs = await serveAnswers(options.admin.host, options.admin.port)
  checks.push(await portCheck(options.webhook, isOurs), await portCheck(options.admin, isOurs))
  return checks
}

async function serviceOf(
  options: DoctorOptions,
  name: string,
  environment: string | null,
  suffix: string,
): Promise<readonly Check[]> {
  const team = options.teams.find((each) => each.name === name)
  if (team === undefined) {
    const what = 'INTAKE_BASE_URL, INTAKE_API_KEY and INTAKE_API_SECRET are not set'
    const hint = 'set the three, or the team’s in INTAKE_CONFIG'
    return [failed(`credentials${suffix}`, what, hint)]
  }
  const { timezone: _timezone, ...connection } = team
  const { clock, logger, signal } = options
  return await lookAtService(connection, { clock, logger, signal, environment, suffix })
}

async function teamsHeld({ db }: Session) {
  const rows = await db.selectFrom('intake.teams').select(['team_id', 'name', 'environment']).execute()
  return rows.map(({ team_id, name, environment }) => ({ teamId: team_id, name, environment }))
}

async function zoneCheck({ db }: Session, { teams }: DoctorOptions): Promise<Check> {
  const zones = [...new Set(teams.map(({ timezone }) => timezone))]
  const { rows } = await sql<{ zone: string }>`
    select zone from unnest(${zones}::text[]) as wanted (zone)
    where not exists (select from pg_timezone_names where lower(name) = lower(zone))`.execute(db)
  if (rows.length === 0) return ok('time zones', zones.length === 0 ? 'none is needed' : zones.join(', '))
  const unknown = rows.map(({ zone }) => zone).join(', ')
  return failed(
    'time zones',
    `the warehouse does not know ${unknown}`,
    'set INTAKE_TIMEZONE to a name of pg_timezone_names',
  )
}

/** Where the warehouse keeps its data, if that is on this machine. */
async function diskOf({ db }: Session, { dataDir, freeBytes = freeOn }: DoctorOptions): Promise<Check> {
  if (dataDir !== null) return diskCheck(await freeBytes(dataDir))
  const { rows } = await sql<{ local: boolean; directory: string | null }>`
    select inet_server_addr() is null or inet_server_addr() << '127.0.0.0/8' or inet_server_addr() = '::1' as local,
      (select setting from pg_settings where name = 'data_directory') as directory`.execute(db)
  const { local, directory } = rows[0]!
  if (!local || directory === null || !existsSync(directory)) return diskCheck(null)
  return diskCheck(await freeBytes(directory))
}

async function freeOn(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path)
  return bavail * bsize
}

async function scheduleCheck(cron: string | null): Promise<Check> {
  if (cron === null) return ok('schedule', 'off')
  const next = await nextOf(cron)
  if (next !== null) return ok('schedule', `${cron}: next at ${next.toISOString()}`)
  return failed(
    'schedule',
    `${cron} names no moment that will come`,
    'correct INTAKE_CRON: minute hour day month weekday',
  )
}

/** Null where it names none. */
async function nextOf(cron: string): Promise<Date | null> {
  const task = createTask(cron, () => {})
  try {
    await task.start()
    return task.getNextRun()
  } finally {
    await task.destroy()
  }
}

async function guarded(name: string, look: () => Promise<Check>): Promise<Check> {
  try {
    return await look()
  } catch (error) {
    return failedBy(name, error)
  }
}
