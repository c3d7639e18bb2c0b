/**
 * A request to the simulated service and back: it arrives at one time, is answered then, and the answer returns at
 * another; or a fault occurs.
 *
 * Invariant: an answer is the service's state at the time of arrival, however late it returns.
 */
import type { Wire, WireAnswer } from '../../src/api/http/wire.ts'
import type { Choice } from './choice.ts'
import type { History } from './history.ts'
import type { Actor, Scheduler } from './scheduler.ts'
import type { Service, ServiceAnswer } from './service.ts'

export interface NetworkOptions {
  /** Name of the team in the trace; empty if there is only one. */
  readonly name: string
  readonly scheduler: Scheduler
  readonly service: Service
  readonly history: History
  readonly choice: Choice
  readonly faultiness: () => number
  /** True while the service is unreachable. */
  readonly isCutOff: () => boolean
  readonly heard: Heard
}

/** Answers that clients received from the service. */
export interface Heard {
  answers: number
  /** Paths of records that a `serve` fetched and did not find. */
  readonly gone: Set<string>
  /** Paths that a run requested without an answer: it requests such a record again later, which proves no delete. */
  readonly failed: Set<string>
}

/** Mostly late answers: their content may be outdated. */
const FAULTS = [
  'lost',
  'answer lost',
  'refused',
  'busy',
  'failing',
  'cut',
  'slow',
  'slow',
  'slow',
  'slow',
] as const

const OUTAGE = ['lost', 'refused', 'failing'] as const

/** After so long without an answer a request counts as lost. */
const SILENT_MS = 30_000

export function openNetwork(options: NetworkOptions, actor: Actor): Wire {
  const { name, scheduler, service, history, choice } = options

  function send(target: string, signals: readonly AbortSignal[]): Promise<WireAnswer> {
    return new Promise((resolve, reject) => {
      let over = false
      for (const signal of signals)
        signal.addEventListener('abort', () => end(() => reject(signal.reason)), { once: true })
      const end = (action: () => void) => {
        if (over || !actor.alive) return
        over = true
        action()
      }
      const faults = options.isCutOff() ? OUTAGE : FAULTS
      const isSilent = actor.isOffline && choice.chance(0.5)
      const fault = actor.isOffline ? 'lost' : choice.chance(options.faultiness()) ? choice.one(faults) : null
      if (fault !== null) scheduler.note(`${name}GET ${target}: ${fault}`)
      if (fault !== null && fault !== 'slow' && /^(?:backfill|worker)/.test(actor.name))
        options.heard.failed.add(target)
      const back = (label: string, action: () => void, isDelayed = () => false) =>
        scheduler.call(actor, `${name}GET ${target} ${label}`, async () => end(action), { isDelayed })
      const lost = () =>
        back('is lost', () => reject(Object.assign(new Error('reset'), { code: 'ECONNRESET' })))
      if (isSilent) return void scheduler.clockOf(actor).sleep(SILENT_MS).then(lost)
      scheduler.call(actor, `${name}GET ${target} arrives`, async () => {
        if (fault === 'lost') return void lost()
        if (fault === 'refused' || fault === 'busy' || fault === 'failing')
          return void back('is refused', () => resolve(whole(refusal(fault))))
        history.look()
        const answer = await service.answer(target)
        if (fault === 'answer lost') return void lost()
        const given =
          fault === 'cut'
            ? { ...answer, body: answer.body.slice(0, choice.below(answer.body.length)) }
            : answer
        const arrive = () =>
          back(
            `is answered ${answer.status}`,
            () => {
              options.heard.answers += 1
              if (answer.status === 404 && actor.name.startsWith('serve')) options.heard.gone.add(target)
              resolve(whole(given))
            },
            () => actor.isOffline,
          )
        if (fault === 'slow') void scheduler.clockOf(actor).sleep(choice.below(20_000)).then(arrive)
        else arrive()
      })
    })
  }

  return {
    send: ({ target }, signals) => send(target, signals),
    open: () => Promise.reject(new Error('streams are not simulated')),
    close: async () => {},
  }
}

function refusal(fault: 'refused' | 'busy' | 'failing'): ServiceAnswer {
  const [status, headers] =
    fault === 'busy' ? [429, { 'retry-after': '1' }] : [fault === 'refused' ? 503 : 500, {}]
  return { status, headers, body: '{"detail": "Not now."}' }
}

function whole({ status, headers, body }: ServiceAnswer): WireAnswer {
  return { status, headers, body: Buffer.from(body) }
}
