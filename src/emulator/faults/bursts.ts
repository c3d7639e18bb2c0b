/**
 * Refusals in a row: once `throttle-burst` strikes a request, those after it are refused as well.
 *
 * Invariant: a burst is as long as its argument says and refuses only requests that its rule is meant for; it ends
 * with the rule.
 */
import { coversPath, type FiredFaults } from './fire.ts'
import type { FaultRule } from './parse.ts'

const NAME = 'throttle-burst'
const LENGTH = 10

export class Bursts {
  /** Requests that each rule still refuses. */
  readonly #left = new WeakMap<FaultRule, number>()

  /** What strikes a request of `path` that `fired` strikes by chance, bursts of earlier requests included. */
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
