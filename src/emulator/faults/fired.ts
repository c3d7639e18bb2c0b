/**
 * Faults: what may go wrong, how a specification of them reads, and which of them strike a given request or event.
 *
 * Invariant: whether a fault strikes the n-th request, or the n-th event of a webhook configuration, depends only on
 * the seed, n, the fault and its probability.
 */
import { Draw, keyOf } from '../world/draw.ts'
import { isEventSource, isWebhookFault, NUMERIC_WEBHOOK_FAULTS, WEBHOOK_FAULTS } from './webhooks.ts'

/** Name, and what it does. An argument stands after a colon, or alone where it cannot be read as a probability. */
export const FAULTS = {
  throttle: 'answers 429 though no limit was passed; argument: seconds in Retry-After (1)',
  'throttle-burst': 'answers 429 to so many requests in a row; argument: how many (10)',
  'throttle-silent': 'answers 429 without Retry-After, the sentence without a number',
  'http-500': 'answers 500 with a detail',
  'http-503': 'answers 503 with Retry-After; argument: its seconds (1)',
  'html-502': 'answers 502 with an HTML page, as proxies do',
  'html-504': 'answers 504 with an HTML page',
  'html-200': 'answers 200 with an HTML page',
  reset: 'closes the connection before answering',
  hang: 'takes the request and never answers',
  slow: 'waits before answering; argument: milliseconds (1000)',
  drip: 'sends the body in ten pieces; argument: milliseconds between two (200)',
  truncate: 'closes the connection in the middle of the body',
  'cut-json': 'ends the body early, as if that were all of it',
  'corrupt-json': 'damages one byte of the body so that it is not JSON',
  'invalid-utf8': 'puts a byte that is not UTF-8 in the middle of a text',
  'empty-body': 'answers 200 with nothing',
  redirect: 'answers 302; argument: other-origin (default), slash',
  'next-elsewhere': 'makes `next` point to another origin',
  'next-loop': 'makes `next` point to the page itself',
  'repeat-page': 'sends the rows of the page before',
  'shift-rows': 'moves a page by one row, so that a row is repeated or skipped',
  'duplicate-rows': 'sends one row of the page twice',
  'drop-rows': 'leaves one row of the page out',
  'wrong-count': 'tells a wrong `count`; argument: how much is added (7)',
  'clock-skew': 'sets the service’s clock wrong for records and the Date header; argument: seconds',
  ...WEBHOOK_FAULTS,
} as const

export type FaultName = keyof typeof FAULTS

export interface FaultRule {
  readonly name: FaultName
  /** From 0 to 1. */
  readonly probability: number
  readonly argument: string | null
  /** Only requests whose path begins with `/v2/<resource>`, or events of this source; null for all. */
  readonly resource: string | null
}

/** The faults that strike one request or event, each with its argument. */
export type FiredFaults = ReadonlyMap<FaultName, string | null>

/** Reads `name[@resource][=probability[:argument]]`, comma-separated. Throws `RangeError` that says what is wrong. */
export function parseFaults(spec: string): FaultRule[] {
  const parts = spec.split(',').map((part) => part.trim())
  return parts.filter((part) => part !== '' && part !== 'none').map(parseRule)
}

function parseRule(text: string): FaultRule {
  const [, name = '', resource = null, value = ''] = /^([^@=]*)(?:@([^=]*))?(?:=(.*))?$/.exec(text) ?? []
  if (!Object.hasOwn(FAULTS, name)) {
    throw new RangeError(`no fault is named "${name}"; there are ${Object.keys(FAULTS).join(', ')}`)
  }
  if (isWebhookFault(name) && resource !== null && !isEventSource(resource)) {
    throw new RangeError(`"${resource}" in "${text}" is no source of events`)
  }
  const rule = { name: name as FaultName, resource }
  if (value === '') return { ...rule, probability: 1, argument: null }
  const [head = '', ...rest] = value.split(':')
  const probability = Number(head)
  if (rest.length > 0 || (name !== 'clock-skew' && isShare(probability))) {
    if (!isShare(probability)) throw new RangeError(`"${head}" in "${text}" is no probability from 0 to 1`)
    return { ...rule, probability, argument: checked(name, rest.length > 0 ? rest.join(':') : null) }
  }
  return { ...rule, probability: 1, argument: checked(name, value) }
}

function isShare(value: number): boolean {
  return value >= 0 && value <= 1
}

const NUMERIC = new Set<string>([
  ...['throttle', 'throttle-burst', 'http-503', 'slow', 'drip', 'wrong-count', 'clock-skew'],
  ...NUMERIC_WEBHOOK_FAULTS,
])

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

/** Which of `rules` strike the `counter`-th request. */
export function fire(rules: readonly FaultRule[], seed: string, counter: number, path: string): FiredFaults {
  return drawn(rules, seed, counter, (rule) => !isWebhookFault(rule.name) && coversPath(rule, path))
}

/** Which of `rules` strike the `counter`-th event of a configuration; `seed` is another for each configuration. */
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

export function coversPath({ resource }: FaultRule, path: string): boolean {
  return resource === null || `${path}/`.startsWith(`/v2/${resource}/`)
}

function drawn(
  rules: readonly FaultRule[],
  seed: string,
  counter: number,
  covers: (rule: FaultRule) => boolean,
): FiredFaults {
  const fired = new Map<FaultName, string | null>()
  for (const [at, rule] of rules.entries()) {
    const { name, probability } = rule
    if (!covers(rule)) continue
    if (probability < 1 && !new Draw(keyOf(seed, 'fault', name, at), counter).chance(probability)) continue
    fired.set(name, rule.argument)
  }
  return fired
}
