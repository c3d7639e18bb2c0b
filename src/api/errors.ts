/**
 * The error of a call to the service.
 *
 * Invariant: contains the method, the template of the path and the status. Contains no id or query, which may identify
 * a person, no byte of the answer, and no cause, since errors of the HTTP library may quote the answer.
 */
import { IntakeError } from '../core/errors.ts'
import type { Failure } from './http/failures.ts'

export class ApiError extends IntakeError {
  /** The HTTP status; undefined without an answer, and for an answer that failed for another reason. */
  readonly status: number | undefined
  /** Number of times the request was sent. */
  readonly tries: number
  /** False if a write was sent and it is unknown whether it took effect. */
  readonly outcomeKnown: boolean
  /** True if no request of the team can be expected to do better. */
  readonly gaveUp: boolean

  constructor(method: string, template: string, failure: Failure, tries: number, read: boolean) {
    const outcomeKnown = read || failure.untouched
    const tried = tries > 1 ? `, after ${tries} tries` : ''
    const unknown = outcomeKnown ? '' : '; whether it took effect is not known'
    super(`${method} ${template}: ${failure.what}${tried}${unknown}`, {
      code: failure.code,
      verdict: outcomeKnown ? failure.verdict : 'stop',
      hint: outcomeKnown ? failure.hint : 'Check whether the change took effect before repeating it.',
    })
    this.name = 'ApiError'
    this.status = failure.status
    this.tries = tries
    this.outcomeKnown = outcomeKnown
    this.gaveUp = failure.gaveUp === true
  }
}

/** An answer is JSON but not of the expected shape, or contradicts itself. */
export class ShapeError extends IntakeError {
  constructor(
    template: string,
    what: string,
    code: 'page_repeated' | 'list_unreadable' | 'record_unreadable',
    hint: string,
  ) {
    super(`GET ${template}: ${what}`, { code, verdict: 'stop', hint })
    this.name = 'ShapeError'
  }
}

/** A webhook configuration was created, but the answer has no secret, which the service returns only once. */
export class MissingSecretError extends IntakeError {
  /** Id of the configuration, or null if the answer has none. */
  readonly id: string | null

  constructor(template: string, id: string | null) {
    super(`POST ${template}: the configuration was created, but the answer has no signature secret`, {
      code: 'secret_missing',
      verdict: 'stop',
      hint: 'The secret cannot be fetched later: delete this configuration and create another.',
    })
    this.name = 'MissingSecretError'
    this.id = id
  }
}
