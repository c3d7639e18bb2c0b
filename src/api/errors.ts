/**
 * The error of a call to the service.
 *
 * Invariant: it names the method and the path's template (ids and queries may identify a person) and the status, and
 * holds no text, header or byte of the answer, nor a cause, since errors of the HTTP library may quote them.
 */
import { IntakeError } from '../core/errors.ts'
import type { Failure } from './http/failures.ts'

export class ApiError extends IntakeError {
  /** The HTTP status, or undefined when no answer came or it was of another kind. */
  readonly status: number | undefined
  /** How often the request was sent. */
  readonly tries: number
  /** False when a write was sent and nobody knows whether the service carried it out. */
  readonly outcomeKnown: boolean

  constructor(method: string, template: string, failure: Failure, tries: number, read: boolean) {
    const outcomeKnown = read || failure.untouched
    const tried = tries > 1 ? `, after ${tries} tries` : ''
    const doubt = outcomeKnown ? '' : '; whether it took effect is not known'
    super(`${method} ${template}: ${failure.what}${tried}${doubt}`, {
      code: failure.code,
      verdict: outcomeKnown ? failure.verdict : 'stop',
      hint: outcomeKnown ? failure.hint : 'Look whether the change is there before repeating it.',
    })
    this.name = 'ApiError'
    this.status = failure.status
    this.tries = tries
    this.outcomeKnown = outcomeKnown
  }
}

/** An answer came and was JSON, but cannot be trusted or read as what it should be. */
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

/** A webhook configuration was created and its secret, which is told once only, was not in the answer. */
export class MissingSecretError extends IntakeError {
  /** Of the configuration, or null when the answer did not tell it either. */
  readonly id: string | null

  constructor(template: string, id: string | null) {
    super(`POST ${template}: the configuration was created, but the answer holds no signature secret`, {
      code: 'secret_missing',
      verdict: 'stop',
      hint: 'The secret cannot be fetched later: delete this configuration and create another.',
    })
    this.name = 'MissingSecretError'
    this.id = id
  }
}
