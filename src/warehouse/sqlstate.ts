/**
 * SQLSTATEs with the verdict, message and hint of each.
 *
 * Invariant: a message may name a table, never a value.
 */
import type { ErrorCode } from '../core/error-codes.ts'
import { IntakeError, type Verdict } from '../core/errors.ts'

/** Tables, columns or functions are missing that this version uses. */
const OTHER_SCHEMA = [
  'other_schema',
  'stop',
  'the tables of the warehouse are not those of this version: it was migrated by a newer one, or changed by hand',
  'start the newer version of intake-sync, or restore the backup that was made before the upgrade; nothing that waits is lost',
] as const

export const SQLSTATE = {
  uniqueViolation: '23505',
  lockNotAvailable: '55P03',
  deadlock: '40P01',
  serializationFailure: '40001',
  insufficientPrivilege: '42501',
  othersDepend: '2BP01',
  undefinedTable: '42P01',
  undefinedColumn: '42703',
  undefinedFunction: '42883',
  invalidPassword: '28P01',
  invalidAuthorization: '28000',
  unknownDatabase: '3D000',
  tooManyConnections: '53300',
  diskFull: '53100',
  adminShutdown: '57P01',
  crashShutdown: '57P02',
  cannotConnectNow: '57P03',
  queryCanceled: '57014',
  readOnly: '25006',
  /** Our own, of intake_ops.hold_erasures. */
  teamRemoved: 'IT001',
} as const

const MEANING: Readonly<
  Record<string, readonly [code: ErrorCode, verdict: Verdict, message: string, hint: string]>
> = {
  [SQLSTATE.lockNotAvailable]: [
    'table_locked',
    'retry',
    'a table of the warehouse is locked by another session',
    'end or wait for the session that holds it (pg_locks, pg_stat_activity), then run again',
  ],
  [SQLSTATE.teamRemoved]: [
    'team_removed',
    'stop',
    'the team was removed from this warehouse',
    'remove it from the configuration; to restore it instead, run a backfill or restart serve with it in the configuration',
  ],
  [SQLSTATE.undefinedTable]: OTHER_SCHEMA,
  [SQLSTATE.undefinedColumn]: OTHER_SCHEMA,
  [SQLSTATE.undefinedFunction]: OTHER_SCHEMA,
  [SQLSTATE.deadlock]: [
    'deadlock',
    'retry',
    'two sessions of the warehouse waited for each other',
    'run again',
  ],
  [SQLSTATE.serializationFailure]: [
    'serialization',
    'retry',
    'the warehouse could not serialise a transaction',
    'run again',
  ],
  [SQLSTATE.insufficientPrivilege]: [
    'privilege',
    'stop',
    'the warehouse login lacks a privilege',
    'connect as the owner of the intake schemas, or grant it intake_loader',
  ],
  [SQLSTATE.invalidPassword]: [
    'login',
    'stop',
    'the warehouse refused the login',
    'check user and password in DATABASE_URL',
  ],
  [SQLSTATE.invalidAuthorization]: [
    'login',
    'stop',
    'the warehouse refused the login',
    'check user and database in DATABASE_URL, and pg_hba.conf',
  ],
  [SQLSTATE.unknownDatabase]: [
    'no_database',
    'stop',
    'the warehouse database does not exist',
    'create it, or correct DATABASE_URL',
  ],
  [SQLSTATE.tooManyConnections]: [
    'connections',
    'retry',
    'the warehouse has no connection left',
    'raise max_connections, or end other sessions',
  ],
  [SQLSTATE.diskFull]: [
    'disk_full',
    'stop',
    'the disk of the warehouse is full',
    'free space, then run again',
  ],
  [SQLSTATE.adminShutdown]: ['shutdown', 'retry', 'the warehouse was shut down', 'start it, then run again'],
  [SQLSTATE.crashShutdown]: ['shutdown', 'retry', 'the warehouse is recovering from a crash', 'run again'],
  [SQLSTATE.cannotConnectNow]: [
    'starting',
    'retry',
    'the warehouse is starting up or shutting down',
    'run again in a moment',
  ],
  [SQLSTATE.queryCanceled]: [
    'canceled',
    'retry',
    'a statement of ours was canceled in the warehouse',
    'find out who cancels statements there (pg_cancel_backend, statement_timeout, a pooler’s limit), then run again',
  ],
  [SQLSTATE.readOnly]: [
    'read_only',
    'stop',
    'the warehouse is read-only',
    'point DATABASE_URL at the primary server',
  ],
}

const NETWORK = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
])

export function sqlstateOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

/** Any failure of the warehouse as an `IntakeError` with verdict and hint; an `IntakeError` is returned unchanged. */
export function warehouseError(error: unknown): IntakeError {
  if (error instanceof IntakeError) return error
  const code = sqlstateOf(error)
  const table = (error as { table?: unknown } | null | undefined)?.table
  const known = code === undefined ? undefined : MEANING[code]
  if (known !== undefined) {
    return new IntakeError(known[2] + (typeof table === 'string' ? ` (${table})` : '') + holders(error), {
      code: known[0],
      verdict: known[1],
      hint: known[3],
      cause: error,
    })
  }
  const untrusted = tlsFailure(error, code)
  if (untrusted !== null) {
    const [message, hint] = untrusted
    return new IntakeError(message, { code: 'warehouse_tls', verdict: 'stop', hint, cause: error })
  }
  if (isConnectionLoss(error, code)) {
    return new IntakeError('cannot reach the warehouse, or lost the connection to it', {
      code: 'warehouse_unreachable',
      verdict: 'retry',
      cause: error,
      hint: 'check that Postgres runs where DATABASE_URL says, then run again',
    })
  }
  if (code !== undefined && /^[0-9A-Z]{5}$/.test(code)) {
    const place = typeof table === 'string' ? ` at table ${table}` : ''
    const message = `the warehouse answered with an error (SQLSTATE ${code})${place}`
    return new IntakeError(message, { code: 'warehouse', verdict: 'stop', cause: error })
  }
  return internalError(error)
}

/** Message and hint, if TLS is missing at the server or its certificate is not the expected one. */
function tlsFailure(error: unknown, code: string | undefined): readonly [string, string] | null {
  if (code === undefined && error instanceof Error && /does not support SSL/.test(error.message))
    return [
      'the warehouse does not offer TLS, and DATABASE_URL asks for it',
      'turn TLS on at the server (ssl = on); within one machine, leave sslmode out of DATABASE_URL',
    ]
  if (code === undefined || !/CERT|SELF_SIGNED|UNABLE_TO_|^ERR_(?:TLS|SSL|OSSL)|^EPROTO$/.test(code))
    return null
  return [
    `the certificate of the warehouse cannot be verified (${code})`,
    'use the host name of the certificate in DATABASE_URL; sslrootcert=FILE names an authority of your own',
  ]
}

/** The sessions that have a lock, as intake_ops.take_lock and `lockForSession` report them; other details may quote a row. */
function holders(error: unknown): string {
  const { message, detail } = error as { message?: unknown; detail?: unknown }
  return message === LOCK_TAKEN && typeof detail === 'string' ? `: ${detail}` : ''
}

/** The message of errors whose detail names the sessions that have a lock. */
export const LOCK_TAKEN = 'a lock is taken'

/** The stack without the message, whose lines may look like its own. */
export function stackBelow({ stack = '', message }: Error): string {
  const from = stack.indexOf(message)
  return from < 0 ? stack : stack.slice(from + message.length)
}

/** A defect: only its kind and place, since its message may quote a record. */
function internalError(error: unknown): IntakeError {
  const kind = error instanceof Error ? error.name : typeof error
  const place =
    error instanceof Error ? /at .*?([\w.-]+:\d+):\d+\)?$/m.exec(stackBelow(error))?.[1] : undefined
  return new IntakeError(`unexpected ${kind}${place === undefined ? '' : ` at ${place}`}`, {
    code: 'internal',
    verdict: 'stop',
    hint: 'this is a fault of intake-sync: report it with this line',
    cause: error,
  })
}

function isConnectionLoss(error: unknown, code: string | undefined): boolean {
  if (code !== undefined) return NETWORK.has(code) || code.startsWith('08')
  return (
    error instanceof Error &&
    /Connection terminated|timeout expired|connection timeout|read timeout|not queryable/i.test(error.message)
  )
}
