/**
 * A call and its attempts: each attempt needs a permit of the limiter, and is retried if that is safe and may help.
 *
 * Invariant: every permit is released. Reads are retried if another attempt may help; a write is retried only after
 * 429, which means that it had no effect. 429 does not count as a failed attempt; the limiter decides how long to wait.
 * Every failure is an `ApiError`, except an abort, which throws the signal's reason.
 */
import { setMaxListeners } from 'node:events'
import { stringify } from 'lossless-json'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { GAVE_UP, type Limiter, type Permit, TOO_LONG } from '../budget/limiter.ts'
import { ApiError } from '../errors.ts'
import { expandPath, queryText } from '../paths.ts'
import { type Answer, dateOf, type Meter, type RequestOptions } from './answer.ts'
import { pauseBefore, retryAfterOf } from './backoff.ts'
import { durationText, type Failure, failureOfBody, failureOfFault, failureOfThrottling } from './failures.ts'
import type { WireAnswer, WireRequest, WireStream } from './wire.ts'
import { BodyFault } from './wire.ts'

export interface AttemptsOptions {
  readonly limiter: Limiter
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  /** `host:port` of the service, for errors. */
  readonly address: string
  /** Prefix of every path; may be empty. */
  readonly prefix: string
  /** Headers of every request. */
  readonly standing: { readonly [name: string]: string }
  /** Signals that abort every call. */
  readonly signals: readonly AbortSignal[]
}

/** An answered attempt, for `judge`. */
export interface Attempt {
  /** The path of the request, with ids. */
  readonly path: string
  readonly startedAt: number
  readonly receivedAt: number
  readonly serviceDate: number | null
  /** Already released, unless the body is still to be read. */
  readonly permit: Permit
  /** The error for a fault that occurs later, while the body is read. */
  failed(thrown: unknown, change?: Partial<Failure>): Error
}

export interface Exchange<Received extends WireAnswer | WireStream, Result> {
  readonly accept: string
  send(request: WireRequest, signals: readonly AbortSignal[]): Promise<Received>
  judge(received: Received, attempt: Attempt): { readonly result: Result } | { readonly failure: Failure }
}

export interface Attempts {
  readonly totals: Readonly<Meter>
  readonly environment: string | null
  make<Received extends WireAnswer | WireStream, Result>(
    method: string,
    template: string,
    call: RequestOptions,
    exchange: Exchange<Received, Result>,
  ): Promise<Result>
}

export function openAttempts(options: AttemptsOptions): Attempts {
  const { limiter, clock, random, logger, address } = options
  const totals: Meter = { requests: 0, throttled: 0 }
  let environment: string | null = null

  async function make<Received extends WireAnswer | WireStream, Result>(
    method: string,
    template: string,
    call: RequestOptions,
    exchange: Exchange<Received, Result>,
  ): Promise<Result> {
    const path = options.prefix + expandPath(template, call.params)
    const target = path + queryText(call.query)
    const label = call.label ?? template
    const urgent = template.includes('{')
    const read = call.read ?? (method === 'GET' || method === 'HEAD')
    const signals = call.signal === undefined ? options.signals : [...options.signals, call.signal]
    // Every waiting request adds a listener; many listeners are not a leak.
    setMaxListeners(0, ...signals)
    const { body, contentType } = encoded(call)
    const headers = {
      ...options.standing,
      accept: exchange.accept,
      ...(contentType === null ? {} : { 'content-type': contentType }),
    }

    const since = clock.now()
    let failures = 0
    for (let tries = 1; ; tries++) {
      const permit = await limiter
        .acquire(signals, { since, again: tries > 1, urgent })
        .catch((reason: unknown) => {
          if (reason !== GAVE_UP && reason !== TOO_LONG) throw reason
          const failure = failureOfThrottling(
            reason === GAVE_UP ? 'gave_up' : 'too_long',
            limiter.giveUpAfterMs,
          )
          throw new ApiError(method, label, failure, tries - 1, read)
        })
      totals.requests += 1
      if (call.meter) call.meter.requests += 1
      const startedAt = clock.now()
      let failure: Failure
      let refusal: Answer | null = null
      let retryAfter: number | null = null
      let mayWait = true
      try {
        const received = await exchange.send({ method, target, headers, body }, signals)
        const { status } = received
        const receivedAt = clock.now()
        const serviceDate = dateOf(received.headers.date)
        environment = received.headers['x-service-environment'] ?? environment
        if (status === 429) {
          totals.throttled += 1
          if (call.meter) call.meter.throttled += 1
        }
        if ((status === 429 || status === 503) && 'body' in received) {
          retryAfter = retryAfterOf(
            received.headers['retry-after'],
            received.body,
            serviceDate,
            receivedAt / 1000,
          )
        }
        if (status === 429) mayWait = permit.throttled(retryAfter)
        else if ('body' in received) permit.accepted()
        const ms = (receivedAt - startedAt) / 1000
        logger.debug({ method, path: label, status, attempt: tries, ms }, 'request')
        const failed = (thrown: unknown, change: Partial<Failure> = {}): Error => {
          const aborted = signals.find((signal) => signal.aborted)
          if (aborted !== undefined) return aborted.reason
          return new ApiError(method, label, { ...failureOf(thrown), ...change }, tries, read)
        }
        const judged = exchange.judge(received, { path, startedAt, receivedAt, serviceDate, permit, failed })
        if ('result' in judged) return judged.result
        failure = judged.failure
        if ('body' in received) {
          const bytes = received.body.length
          refusal = { ...received, startedAt, receivedAt, serviceDate, bytes, invalidUtf8: false }
        }
      } catch (thrown) {
        const mayGoOn = permit.lost()
        for (const signal of signals) signal.throwIfAborted()
        failure = failureOf(thrown)
        if (!mayGoOn) failure = failureOfSilence(failure, limiter.giveUpAfterMs)
        logger.debug({ method, path: label, code: failure.code, attempt: tries }, 'request failed')
      }
      const { again } = failure
      if (again === 'throttled') {
        // The limiter delays all requests of the team, including this one.
        if (mayWait) continue
        failure = failureOfThrottling('gave_up', limiter.giveUpAfterMs)
      } else {
        failures += 1
        const pause = pauseBefore(read ? again : 'never', failures, retryAfter, random)
        if (pause !== null) {
          await sleep(pause, signals)
          continue
        }
      }
      if (refusal !== null) call.onRefusal?.(refusal)
      throw new ApiError(method, label, failure, tries, read)
    }
  }

  function failureOf(thrown: unknown): Failure {
    return thrown instanceof BodyFault ? failureOfBody(thrown.fault) : failureOfFault(thrown, address)
  }

  async function sleep(milliseconds: number, signals: readonly AbortSignal[]): Promise<void> {
    const abort = new AbortController()
    const stop = (event: Event) => abort.abort((event.target as AbortSignal).reason)
    for (const signal of signals) {
      signal.throwIfAborted()
      signal.addEventListener('abort', stop, { once: true })
    }
    try {
      await clock.sleep(milliseconds, abort.signal)
    } finally {
      for (const signal of signals) signal.removeEventListener('abort', stop)
    }
  }

  return {
    totals,
    get environment() {
      return environment
    },
    make,
  }
}

function encoded(call: RequestOptions): { body: Uint8Array | string | null; contentType: string | null } {
  if (call.body === undefined) return { body: null, contentType: null }
  if (call.body instanceof Uint8Array)
    return { body: call.body, contentType: call.contentType ?? 'application/octet-stream' }
  // Lossless numbers are written as received.
  return { body: stringify(call.body) ?? null, contentType: call.contentType ?? 'application/json' }
}

/** The failure of a request without an answer, after no request of the team had one for too long. */
function failureOfSilence(failure: Failure, giveUpAfterMs: number): Failure {
  const limit = durationText(giveUpAfterMs)
  return {
    ...{ ...failure, again: 'never', gaveUp: true },
    what: `${failure.what}, and the service answered no request for ${limit}`,
    hint: `${failure.hint} INTAKE_GIVE_UP_AFTER (${limit}) says how long to wait.`,
  }
}
