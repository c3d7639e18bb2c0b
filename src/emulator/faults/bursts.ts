/**
 * The fault `throttle-burst`: once it applies to a request, the following ones are refused too.
 *
 * Invariant: a burst has the length of its argument and refuses only requests that its rule covers; it ends when the
 * rule is removed.
 */
import { coversPath, type FiredFaults } from './fire.ts'
import type { FaultRule } from './parse.ts'

const NAME = 'throttle-burst'
const LENGTH = 10

export class Bursts {
  /** Remaining refusals of each rule. */
  readonly #left = new WeakMap<FaultRule, number>()

  /** The faults of a request: those of `fired`, and bursts that earlier requests started. */
  goOn(rules: readonly FaultRule[], fired: FiredFaults, path: string): FiredFaults {
    const bursting = rules.filter((rule) => rule.name === NAME && coversPath(rule, path))
    const going = bursting.find((rule) => this.#left.has(rule))
    const rule = going ?? (fired.has(NAME) ? bursting[0] : undefined)
    if (rule === undefined) return fired
    const left = (this.#left.get(rule) ?? Number(rule.argument ?? LENGTH)) - 1
    if (left > 0) this.#left.set(rule, left)
    else this.#left.delete(rule)
    return new Map([...fired, [NAME, rule.argument]])
  }
}
