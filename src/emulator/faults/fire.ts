/**
 * Draws the faults that apply to a request or an event.
 *
 * Invariant: whether a fault applies to the n-th request, or the n-th event of a webhook configuration, depends only on
 * the seed, n, the fault and its probability.
 */

import { Draw, keyOf } from '../world/draw.ts'
import { type FaultName, type FaultRule, isWebhookFault } from './parse.ts'

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
  for (const [at, rule] of rules.entries()) {
    const { name, probability } = rule
    if (!covers(rule)) continue
    if (probability < 1 && !new Draw(keyOf(seed, 'fault', name, at), counter).chance(probability)) continue
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
