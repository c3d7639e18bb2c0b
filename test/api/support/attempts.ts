/** Attempts without a service or a limiter: what is sent is answered as a test says, and each step is noted. */
import type { Logger } from 'pino'
import type { Limiter } from '../../../src/api/budget/limiter.ts'
import type { ApiError } from '../../../src/api/errors.ts'
import { outcomeOf, type RequestOptions } from '../../../src/api/http/answer.ts'
import { type Attempt, openAttempts } from '../../../src/api/http/attempts.ts'
import type { WireAnswer, WireRequest, WireStream } from '../../../src/api/http/wire.ts'

export type Sent = WireAnswer | WireStream | Error

export const answer = (status: number, body = '{}', headers = {}): WireAnswer => ({
  ...{ status, headers, body: Buffer.from(body) },
})
/** When each call begins, in microseconds. */
export const SINCE = 1_000_000_000
export const RESET = Object.assign(new Error('reset'), { code: 'ECONNRESET' })

/** Sends get these one after the other; `says` is what permits say of going on. */
export function open(sent: readonly Sent[], { says = true, refuses = null as Error | null, apart = 0 } = {}) {
  const steps: unknown[] = []
  const left = [...sent]
  let micros = SINCE
  const own = new AbortController()
  const clock = {
    now: () => micros,
    async sleep(milliseconds: number, signal?: AbortSignal) {
      steps.push(['pause', milliseconds])
      signal?.throwIfAborted()
      micros += milliseconds * 1_000
    },
  }
  const permit = {
    accepted: () => void steps.push('accepted'),
    streaming: () => () => {},
    throttled: (retryAfter: number | null) => {
      steps.push(['throttled', retryAfter])
      return says
    },
    lost: () => {
      steps.push('lost')
      return says
    },
  }
  const limiter: Limiter = {
    giveUpAfterMs: 90_000,
    permittedRate: () => null,
    close: async () => {},
    async acquire(_signals, call) {
      steps.push(call)
      if (refuses !== null) throw refuses
      return permit
    },
  }
  const lines: unknown[] = []
  const logger = { debug: (...line: unknown[]) => void lines.push(line) } as unknown as Logger
  const requests: WireRequest[] = []
  const signalsOf: (readonly AbortSignal[])[] = []
  const attempts = openAttempts({
    ...{ limiter, clock, random: () => 0.5, logger, address: 'host:443', prefix: '/intake' },
    ...{ standing: { 'x-api-key': 'k' }, signals: [own.signal] },
  })
  const judged: Attempt[] = []
  const make = (
    method: string,
    path: string,
    call: RequestOptions = {},
    during: (attempt: Attempt) => void = () => {},
  ) =>
    attempts.make<WireAnswer | WireStream, unknown>(method, path, call, {
      accept: 'application/json',
      async send(request, signals) {
        requests.push(request)
        signalsOf.push(signals)
        micros += 2_500
        const next = left.shift()!
        if (next instanceof Error) throw next
        micros += apart
        return next
      },
      judge(received, attempt) {
        judged.push(attempt)
        during(attempt)
        if (!('body' in received)) return { result: 'a stream' }
        const outcome = outcomeOf(received, attempt.path, path.includes('{'))
        return 'code' in outcome ? { failure: outcome } : { result: outcome.body }
      },
    })
  const failing = async (...call: Parameters<typeof make>): Promise<ApiError> => {
    return await make(...call).then(
      () => Promise.reject(new Error('no error')),
      (error) => error,
    )
  }
  return { attempts, make, failing, steps, lines, requests, signalsOf, judged, own }
}
