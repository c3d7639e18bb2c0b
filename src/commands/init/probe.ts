/**
 * What `init` tries. The service: its records by stream, how it lists them, and how long a first backfill takes. The
 * warehouse, which it prepares.
 *
 * Invariant: one request for each stream, whose records are counted and dropped. A stream that cannot be listed is
 * reported, and is no failure. Nothing is created in a warehouse that was not seen to work.
 */
import pino from 'pino'
import { migrate } from '../../analytics/migrate.ts'
import type { Client } from '../../api/client.ts'
import { readList } from '../../api/paging/list-envelope.ts'
import type { Config } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import { isObject } from '../../core/json.ts'
import { type Check, failed } from '../../operate/doctor/check.ts'
import { checkService } from '../../operate/doctor/service.ts'
import { checkWarehouse } from '../../operate/doctor/warehouse.ts'
import { STREAMS } from '../../streams/catalogue.ts'
import { isPartial, type Stream } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { type Context, openService, openWarehouse } from '../context.ts'

export interface StreamProbe {
  readonly stream: string
  /** Records; null if the service does not count them, or cannot list them. */
  readonly count: number | null
  /** Records of the first page. */
  readonly page: number
  /** Whether each record is fetched by itself as well: the list contains summaries, or files. */
  readonly by_id: boolean
  /** Why the list could not be read; null if it could. */
  readonly error: string | null
}

export interface ServiceProbe {
  readonly streams: readonly StreamProbe[]
  /** Requests of a first backfill; a lower bound where a stream has no count. */
  readonly requests: number
  readonly is_lower_bound: boolean
  /** Permitted requests a second; null while no limit is known. */
  readonly permitted_rate: number | null
  readonly seconds: number
}

export interface TeamProbe extends ServiceProbe {
  readonly team: string
  readonly base_url: string
  readonly environment: string | null
}

const SILENT = pino({ level: 'silent' })

/** The first thing that is wrong with the access to a team's service; null if nothing is. */
export async function firstFailure(context: Context, { teams }: Config): Promise<Check | null> {
  for (const { webhookSecrets: _, timezone: __, pageSize: ___, bodyKeys: ____, ...team } of teams) {
    const suffix = teams.length > 1 ? ` of ${team.name}` : ''
    const checks = await checkService(team, {
      ...{ clock: systemClock, logger: SILENT, signal: context.signal, environment: null, suffix },
    })
    const failure = checks.find(({ status }) => status === 'failed')
    if (failure !== undefined) return failure
  }
  return null
}

export async function probed(context: Context, config: Config): Promise<readonly TeamProbe[]> {
  const found: TeamProbe[] = []
  for (const team of config.teams) {
    await using client = openService(context, config, team, { logger: SILENT })
    const probe = await probeService(client, systemClock.now)
    found.push({ team: team.name, base_url: team.baseUrl, environment: client.environment, ...probe })
  }
  return found
}

async function probeService(client: Client, now: () => number): Promise<ServiceProbe> {
  const streams: StreamProbe[] = []
  const begun = now()
  for (const stream of STREAMS) streams.push(await probeStream(client, stream))
  const each = (now() - begun) / 1_000_000 / streams.length
  const requests = streams.reduce((sum, probe) => sum + requestsOf(probe), 0)
  const pace = Math.min(client.permittedRate ?? Number.POSITIVE_INFINITY, client.concurrency / each)
  return {
    streams,
    requests,
    is_lower_bound: streams.some(({ count, error }) => count === null && error === null),
    permitted_rate: client.permittedRate,
    seconds: Math.max(1, Math.round(requests / pace)),
  }
}

async function probeStream(client: Client, stream: Stream): Promise<StreamProbe> {
  const path = client.pathOf(stream.list!)
  const nothing = { stream: stream.name, count: null, page: 0, by_id: false }
  try {
    const size = client.pageSize === undefined ? {} : { query: { page_size: client.pageSize } }
    const { body, headers } = await client.get(path, size)
    const list = readList(body, headers, stream.listedAs ?? stream.name, path)
    if (list === null) return { ...nothing, error: 'the answer contains no list' }
    const { records, count, next } = list
    const byId =
      stream.reading?.kind === 'files' ||
      (stream.one !== null &&
        records.some((record) => isObject(record) && isPartial(stream, record, client.apiVersion)))
    const known = count ?? (next === null ? records.length : null)
    return { stream: stream.name, count: known, page: records.length, by_id: byId, error: null }
  } catch (error) {
    if (!(error instanceof IntakeError)) throw error
    return { ...nothing, error: error.message }
  }
}

function requestsOf({ count, page, by_id }: StreamProbe): number {
  const records = count ?? page
  return Math.max(1, Math.ceil(records / Math.max(1, page))) + (by_id ? records : 0)
}

/** Checks and migrates the warehouse. Throws if it cannot be used. */
export async function prepareWarehouse(context: Context, config: Config): Promise<readonly string[]> {
  await using warehouse = await openWarehouse(context, config)
  const { checks, session } = await checkWarehouse(warehouse.url)
  const notes: string[] = []
  try {
    const failure = checks.find(({ name, status }) => status === 'failed' && name !== 'schema')
    if (failure !== undefined) throw refused(failure)
    const privilege = await schemaPrivilege(session!)
    if (privilege !== null) throw refused(privilege)
    const { rows } = await session!.client.query<Connection>(
      'select ssl, host(client_addr) as address from pg_stat_ssl join pg_stat_activity using (pid) where pid = pg_backend_pid()',
    )
    if (rows.some(isOpen)) {
      notes.push('the connection to the warehouse has no TLS: add sslmode=verify-full to DATABASE_URL')
    }
  } finally {
    await session?.close()
  }
  const report = await migrate(warehouse.url, config)
  return [...notes, ...report.notes, ...(report.rolesNote === null ? [] : [report.rolesNote])]
}

export interface Connection {
  readonly ssl: boolean
  /** Of this machine, as the server sees it; null for a Unix socket. */
  readonly address: string | null
}

/** Whether somebody on the way could read it. */
export function isOpen({ ssl, address }: Connection): boolean {
  return !ssl && address !== null && !/^(?:127\.|::1$)/.test(address)
}

/** The check that fails if there are no schemas yet, and the login may not create them. */
async function schemaPrivilege({ client }: Session): Promise<Check | null> {
  const { rows } = await client.query<{ may: boolean; database: string }>(
    `select current_database() as database, to_regnamespace('intake_ops') is not null
       or has_database_privilege(current_database(), 'create') as may`,
  )
  const [{ may, database }] = rows as [(typeof rows)[number]]
  if (may) return null
  return failed(
    'database privileges',
    'this login may not create the schemas of the warehouse',
    `as the owner of the database: grant create on database "${database}" to the login; or connect as the owner`,
  )
}

/** The error with which `init` ends where a check failed. */
export function refused({ name, detail, hint }: Check): IntakeError {
  const message = `${name}: ${detail}; nothing was written`
  return new IntakeError(message, {
    code: 'init_refused',
    verdict: 'stop',
    ...(hint === null ? {} : { hint }),
  })
}
