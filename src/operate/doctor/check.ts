/** The result of one check. Invariant: neither detail nor hint contains a secret, a connection string or health data. */
import { warehouseError } from '../../warehouse/sqlstate.ts'

export type CheckStatus = 'ok' | 'warning' | 'failed'

export interface Check {
  readonly name: string
  readonly status: CheckStatus
  readonly detail: string
  /** Null if there is nothing to do. */
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

/** A failed check with the message and hint of an error of the warehouse, or of intake-sync itself. */
export function failedBy(name: string, error: unknown): Check {
  const { message, hint } = warehouseError(error)
  return failed(name, message, hint ?? 'run doctor again; report the error if it persists')
}
