/**
 * Every failure that intake-sync knows carries a verdict: what the caller does about it.
 *
 * Invariant: `message`, `hint` and `code` never hold a payload, a name, an answer, a credential or any text that
 * came from the service; they may hold ids of runs and streams, paths, status codes and counts.
 */
import type { ErrorCode } from './error-codes.ts'

/**
 * - `retry`: the same call may succeed later (throttled, unreachable, 5xx, a lock).
 * - `stop`: the run cannot go on (credentials, configuration, a source that cannot be trusted).
 * - `dead_letter`: this one record or event is at fault; it becomes a dead letter and the rest goes on.
 * - `gone`: the resource does not exist (404); whether that means anything is for the caller to say.
 */
export type Verdict = 'retry' | 'stop' | 'dead_letter' | 'gone'

export interface FailureDetails {
  /** Stable, for scripts and people: docs/errors.md has a section for each. */
  readonly code: ErrorCode
  readonly verdict: Verdict
  /** What the reader can do about it, as an instruction. */
  readonly hint?: string
  readonly cause?: unknown
}

export class IntakeError extends Error {
  readonly code: ErrorCode
  readonly verdict: Verdict
  readonly hint: string | undefined

  constructor(message: string, details: FailureDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = 'IntakeError'
    this.code = details.code
    this.verdict = details.verdict
    this.hint = details.hint
  }
}

/** Wrong usage or configuration: exit code 2. `variable` names the option or environment variable at fault. */
export class UsageError extends IntakeError {
  readonly variable: string | undefined

  constructor(message: string, hint?: string, variable?: string, code: ErrorCode = usualCode(variable)) {
    super(message, { code, verdict: 'stop', ...(hint === undefined ? {} : { hint }) })
    this.name = 'UsageError'
    this.variable = variable
  }
}

/** The verdict of any thrown value; what we do not know is a fault of ours and stops the slice it happened in. */
export function verdictOf(error: unknown): Verdict {
  return error instanceof IntakeError ? error.verdict : 'stop'
}

/** Variables, and keys of the configuration file, are settings; options and arguments belong to the command line. */
function usualCode(variable: string | undefined): ErrorCode {
  return variable !== undefined && /^(INTAKE_|DATABASE_URL|LOG_LEVEL|paths|bodyKeys|teams)/.test(variable)
    ? 'setting_invalid'
    : 'usage'
}
