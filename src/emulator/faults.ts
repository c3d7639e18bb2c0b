/**
 * The faults that the emulator can inject, and specifications of them, such as
 * `throttle=0.1:2,webhook-drop@response=0.1`. A fault of a webhook event applies when the event is created, not to its
 * retries.
 *
 * Invariant: a specification is read as a whole or refused with a `RangeError`. Whether a fault applies to the n-th
 * request, or the n-th event of a webhook configuration, depends only on the seed, n, the fault and its probability.
 */
import { Draw, keyOf } from './world/draw.ts'
import { EVENT_SOURCES } from './world/world.ts'

/** Faults of webhook delivery. Milliseconds are of real time. */
const WEBHOOK_FAULTS = {
  'webhook-duplicate': 'sends an event twice at the same moment, under one id',
  'webhook-reorder': 'delays an event until the next one was sent, or for a second',
  'webhook-delay': 'delays an event; argument: milliseconds (1000)',
  'webhook-drop': 'never sends an event, and does not record it',
  'webhook-forge': 'first sends the event with altered data, signed with another secret',
  'webhook-rerender': 'sends an acknowledged event again with newer data; argument: milliseconds later (500)',
  'webhook-off':
    'disables the endpoint silently until it is configured again; argument: after how many events (0)',
} as const

/** Name and effect of each fault. An argument follows a colon, or stands alone if it is not a probability. */
export const FAULTS = {
  throttle: 'answers 429 although no limit was exceeded; argument: seconds in Retry-After (1)',
  'throttle-burst': 'answers 429 to several requests in a row; argument: how many (10)',
  'throttle-silent': 'answers 429 without Retry-After and without a number in the sentence',
  'http-500': 'answers 500 with a detail',
  'http-503': 'answers 503 with Retry-After; argument: its seconds (1)',
  'html-502': 'answers 502 with an HTML page, as proxies do',
  'html-504': 'answers 504 with an HTML page',
  'html-200': 'answers 200 with an HTML page',
  reset: 'closes the connection before answering',
  hang: 'takes the request and never answers',
  slow: 'waits before answering; argument: milliseconds (1000)',
  drip: 'sends the body in ten pieces; argument: milliseconds between pieces (200)',
  truncate: 'closes the connection in the middle of the body',
  'cut-json': 'ends the body early, as if it were complete',
  'corrupt-json': 'damages one byte of the body so that it is not JSON',
  'invalid-utf8': 'puts a byte that is not UTF-8 in the middle of a text',
  'empty-body': 'answers 200 with nothing',
  redirect: 'answers 302; argument: other-origin (default), slash',
  'next-elsewhere': 'makes `next` point to another origin',
  'next-loop': 'makes `next` point to the page itself',
  'repeat-page': 'sends the rows of the previous page',
  'shift-rows': 'moves a page by one row, so that a row is repeated or skipped',
  'duplicate-rows': 'sends one row of the page twice',
  'drop-rows': 'omits one row of the page',
  'wrong-count': 'reports a wrong `count`; argument: how much is added (7)',
  'clock-skew': 'sets the service’s clock wrong for records and the Date header; argument: seconds',
  ...WEBHOOK_FAULTS,
} as const

export type FaultName = keyof typeof FAULTS

/** Faults whose argument is a number. */
const NUMERIC: ReadonlySet<string> = new Set<FaultName>([
  ...(['throttle', 'throttle-burst', 'http-503', 'slow', 'drip', 'wrong-count', 'clock-skew'] as const),
  ...(['webhook-delay', 'webhook-rerender', 'webhook-off'] as const),
])

export function isWebhookFault(name: string): boolean {
  return Object.hasOwn(WEBHOOK_FAULTS, name)
}

export interface FaultRule {
  readonly name: FaultName
  /** From 0 to 1. */
  readonly probability: number
  readonly argument: string | null
  /** Only requests whose path begins with `/v2/<resource>`, or events of this source; null for all. */
  readonly resource: string | null
}

/** Reads `name[@resource][=probability[:argument]]`, comma-separated. Throws `RangeError` with the reason. */
export function parseFaults(spec: string): FaultRule[] {
  const parts = spec.split(',').map((part) => part.trim())
  return parts.filter((part) => part !== '' && part !== 'none').map(parseRule)
}

function parseRule(text: string): FaultRule {
  const [, name = '', resource = null, value = ''] = /^([^@=]*)(?:@([^=]*))?(?:=(.*))?$/.exec(text) ?? []
  if (!Object.hasOwn(FAULTS, name)) {
    throw new RangeError(`no fault is named "${name}"; there are ${Object.keys(FAULTS).join(', ')}`)
  }
  if (isWebhookFault(name) && resource !== null && !EVENT_SOURCES.some((source) => source === resource)) {
    throw new RangeError(`"${resource}" in "${text}" is not a source of events`)
  }
  const rule = { name: name as FaultName, resource }
  if (value === '') return { ...rule, probability: 1, argument: null }
  const [head = '', ...rest] = value.split(':')
  const probability = Number(head)
  if (rest.length > 0 || (name !== 'clock-skew' && isShare(probability))) {
    if (!isShare(probability)) throw new RangeError(`"${head}" in "${text}" is not a probability from 0 to 1`)
    return { ...rule, probability, argument: checked(name, rest.length > 0 ? rest.join(':') : null) }
  }
  return { ...rule, probability: 1, argument: checked(name, value) }
}

function isShare(value: number): boolean {
  return value >= 0 && value <= 1
}

function checked(name: string, argument: string | null): string | null {
  if (argument === null) return null
  const fits =
    name === 'redirect'
      ? argument === 'other-origin' || argument === 'slash'
      : NUMERIC.has(name) && argument.trim() !== '' && Number.isFinite(Number(argument))
  if (!fits)
    throw new RangeError(`"${argument}" is not a value of the fault "${name}": ${FAULTS[name as FaultName]}`)
  return argument
}

/** The faults of one request or event, each with its argument. */
export type FiredFaults = ReadonlyMap<FaultName, string | null>

/** The faults of the `counter`-th request. */
export function fire(rules: readonly FaultRule[], seed: string, counter: number, path: string): FiredFaults {
  return drawn(rules, seed, counter, (rule) => !isWebhookFault(rule.name) && coversPath(rule, path))
}

/** The faults of the `counter`-th event of a configuration; `seed` differs for each configuration. */
export function fireWebhook(
  rules: readonly FaultRule[],
  seed: string,
  counter: number,
  source: string,
): FiredFaults {
  const covers = ({ name, resource }: FaultRule) =>
    isWebhookFault(name) && (resource === null || resource === source)
  return drawn(rules, seed, counter, covers)
}

function coversPath({ resource }: FaultRule, path: string): boolean {
  return resource === null || `${path}/`.startsWith(`/v2/${resource}/`)
}

function drawn(
  rules: readonly FaultRule[],
  seed: string,
  counter: number,
  covers: (rule: FaultRule) => boolean,
): FiredFaults {
  const fired = new Map<FaultName, string | null>()
  for (const [index, rule] of rules.entries()) {
    const { name, probability } = rule
    if (!covers(rule)) continue
    if (probability < 1 && !new Draw(keyOf(seed, 'fault', name, index), counter).chance(probability)) continue
    fired.set(name, rule.argument)
  }
  return fired
}

const BURST = 'throttle-burst'
const BURST_LENGTH = 10

/**
 * The fault `throttle-burst`: once it applies to a request, the following ones are refused too.
 *
 * Invariant: a burst has the length of its argument and refuses only requests that its rule covers; it ends when the
 * rule is removed.
 */
export class Bursts {
  /** Remaining refusals of each rule. */
  readonly #left = new WeakMap<FaultRule, number>()

  /** The faults of a request: those of `fired`, and bursts that earlier requests started. */
  goOn(rules: readonly FaultRule[], fired: FiredFaults, path: string): FiredFaults {
    const bursting = rules.filter((rule) => rule.name === BURST && coversPath(rule, path))
    const going = bursting.find((rule) => this.#left.has(rule))
    const rule = going ?? (fired.has(BURST) ? bursting[0] : undefined)
    if (rule === undefined) return fired
    const left = (this.#left.get(rule) ?? Number(rule.argument ?? BURST_LENGTH)) - 1
    if (left > 0) this.#left.set(rule, left)
    else this.#left.delete(rule)
    return new Map([...fired, [BURST, rule.argument]])
  }
}
