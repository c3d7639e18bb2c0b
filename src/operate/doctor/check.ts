/** One thing that was looked at. Invariant: neither detail nor hint holds a secret, a connection string or health data. */
import { warehouseError } from '../../warehouse/sqlstate.ts'

export type CheckStatus = 'ok' | 'warning' | 'failed'

export interface Check {
  readonly name: string
  readonly status: CheckStatus
  readonly detail: string
  /** What to do; null where nothing need be done. */
  readonly hint: string | null
}

export function ok(name: string, detail: string): Check {
  return { name, status: 'ok', detail, hint: null }
}

export function warning(name: string, detail: string, hint: string): Check {
  return { name, status: 'warning', detail, hint }
}

export function failed(name: string, detail: string, hint: string): Check {
  return { name, status: 'failed', detail, hint }
}

/** What a failure of the warehouse, or of ours, says of itself. */
export function failedBy(name: string, error: unknown): Check {
  const { message, hint } = warehouseError(error)
  return failed(name, message, hint ?? 'run again; if it stays, report it')
}
