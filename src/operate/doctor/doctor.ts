/**
 * Checks every prerequisite of intake-sync and gives a hint for each failure.
 *
 * Invariant: a failed check prevents no other check. Nothing is changed, and no result contains data of a record.
 */
import { existsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { sql } from 'kysely'
import { createTask } from 'node-cron'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { Session } from '../../warehouse/connect.ts'
import { type Check, failed, failedBy, ok, warning } from './check.ts'
import { diskCheck, type Port, portCheck, serveAnswers } from './machine.ts'
import { checkService, rateLimitCheck, type ServiceTeam } from './service.ts'
import { checkWarehouse } from './warehouse.ts'
import { inboxCheck, secretChecks } from './webhooks.ts'

export interface DoctorOptions {
  /** Connection string of the warehouse; null if it does not exist yet. */
  readonly url: string | null
  /** Data directory of an embedded warehouse; else null. */
  readonly dataDir: string | null
  /** All configured teams, including those without credentials for the service. */
  readonly ingestTeams: readonly { readonly name: string; readonly webhookSecrets: readonly string[] }[]
  readonly teams: readonly (ServiceTeam & { readonly timezone: string })[]
  readonly encryptionKey: string | null
  readonly cron: string | null
  /** Default: null. */
  readonly alerts?: AlertSecret
  readonly webhook: Port
  readonly admin: Port
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  /** Returns the free bytes of the file system at a path. */
  readonly freeBytes?: (path: string) => Promise<number>
}

export async function runChecks(options: DoctorOptions): Promise<readonly Check[]> {
  const checks: Check[] = []
  const { url } = options
  if (url === null) {
    const hint = 'run intake-sync migrate, or set DATABASE_URL'
    checks.push(
      warning('database', 'there is no warehouse yet; the first command that needs it creates it', hint),
    )
    checks.push(...(await otherChecks(options, null)))
    return checks
  }
  const warehouse = await checkWarehouse(url)
  checks.push(...warehouse.checks)
  try {
    if (warehouse.session !== null)
      checks.push(await guarded('disk', () => warehouseDisk(warehouse.session!, options)))
    const session = warehouse.migrated ? warehouse.session : null
    if (session !== null) checks.push(await guarded('time zones', () => zoneCheck(session, options)))
    checks.push(...(await otherChecks(options, session)))
    return checks
  } finally {
    await warehouse.session?.close()
  }
}

/** Checks that do not need a warehouse; some check more if there is a session. */
async function otherChecks(options: DoctorOptions, session: Session | null): Promise<readonly Check[]> {
  const known = session === null ? [] : await storedTeams(session)
  // Concurrent, so that a service that does not respond delays only its own team.
  const services = await Promise.all(
    options.ingestTeams.map(({ name }) => {
      const suffix = options.ingestTeams.length > 1 ? ` of ${name}` : ''
      const stored = known.find((team) => team.name === name)
      return serviceChecks(options, name, stored?.environment ?? null, suffix)
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

async function serviceChecks(
  options: DoctorOptions,
  name: string,
  environment: string | null,
  suffix: string,
): Promise<readonly Check[]> {
  const team = options.teams.find((each) => each.name === name)
  if (team === undefined) {
    const what = 'INTAKE_BASE_URL, INTAKE_API_KEY and INTAKE_API_SECRET are not set'
    const hint = 'set all three, or the values of the team in INTAKE_CONFIG'
    return [failed(`credentials${suffix}`, what, hint)]
  }
  const { timezone: _timezone, ...connection } = team
  const { clock, logger, signal } = options
  const found = await checkService(connection, { clock, logger, signal, environment, suffix })
  return [...found, rateLimitCheck(connection, suffix)]
}

async function storedTeams({ db }: Session) {
  const rows = await db.selectFrom('intake.teams').select(['team_id', 'name', 'environment']).execute()
  return rows.map(({ team_id, name, environment }) => ({ teamId: team_id, name, environment }))
}

async function zoneCheck({ db }: Session, { teams }: DoctorOptions): Promise<Check> {
  const zones = [...new Set(teams.map(({ timezone }) => timezone))]
  const { rows } = await sql<{ zone: string }>`
    select zone from unnest(${zones}::text[]) as wanted (zone)
    where not exists (select from pg_timezone_names where lower(name) = lower(zone))`.execute(db)
  if (rows.length === 0) return ok('time zones', zones.length === 0 ? 'none' : zones.join(', '))
  const unknown = rows.map(({ zone }) => zone).join(', ')
  return failed(
    'time zones',
    `the warehouse does not know ${unknown}`,
    'set INTAKE_TIMEZONE to a name of pg_timezone_names',
  )
}

/** Checks the disk of the warehouse if the server runs on this machine. */
async function warehouseDisk(
  { db }: Session,
  { dataDir, freeBytes = freeBytesAt }: DoctorOptions,
): Promise<Check> {
  if (dataDir !== null) return diskCheck(await freeBytes(dataDir))
  const { rows } = await sql<{ local: boolean; directory: string | null }>`
    select inet_server_addr() is null or inet_server_addr() << '127.0.0.0/8' or inet_server_addr() = '::1' as local,
      (select setting from pg_settings where name = 'data_directory') as directory`.execute(db)
  const { local, directory } = rows[0]!
  if (!local || directory === null || !existsSync(directory)) return diskCheck(null)
  return diskCheck(await freeBytes(directory))
}

async function freeBytesAt(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path)
  return bavail * bsize
}

async function scheduleCheck(cron: string | null): Promise<Check> {
  if (cron === null) return ok('schedule', 'off')
  const next = await nextMatch(cron)
  if (next !== null) return ok('schedule', `${cron}: next at ${next.toISOString()}`)
  return failed('schedule', `${cron} never matches`, 'correct INTAKE_CRON: minute hour day month weekday')
}

/** Null if the expression never matches. */
async function nextMatch(cron: string): Promise<Date | null> {
  const task = createTask(cron, () => {})
  try {
    await task.start()
    return task.getNextRun()
  } finally {
    await task.destroy()
  }
}

async function guarded(name: string, check: () => Promise<Check>): Promise<Check> {
  try {
    return await check()
  } catch (error) {
    return failedBy(name, error)
  }
}

/** Null if no URL is set. */
type AlertSecret = { readonly secret: string | null } | null

/** Checks that alerts are posted and accepted; posts nothing itself, and shows no part of the URL. */
async function alertsCheck(session: Session | null, alerts: AlertSecret): Promise<Check> {
  if (alerts === null) return ok('alerts', 'off: INTAKE_ALERT_URL is not set')
  if (session !== null) {
    const { rows } = await sql<{ waiting: number; attempts: number }>`
      select count(*)::int as waiting, coalesce(max(attempts), 0)::int as attempts
      from intake_ops.alerts where attempts > 0`.execute(session.db)
    const { waiting, attempts } = rows[0]!
    const hint = 'check INTAKE_ALERT_URL, and that its receiver is running'
    if (waiting > 0)
      return warning('alerts', `${waiting} could not be posted, tried ${attempts} time(s)`, hint)
  }
  if (alerts.secret !== null) return ok('alerts', 'posted to INTAKE_ALERT_URL, signed')
  const hint = 'set INTAKE_ALERT_SECRET, so that the receiver can verify the sender'
  return warning('alerts', 'posted to INTAKE_ALERT_URL without a signature', hint)
}
