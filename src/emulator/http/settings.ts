/** Settings of both environments. Those that are not `readonly` can change while the emulator runs. */
import type { Bursts } from '../faults/bursts.ts'
import type { FaultRule } from '../faults/parse.ts'
import type { Shape } from '../shapes/shape.ts'
import type { RateLimit } from './throttle.ts'

export interface Settings {
  readonly seed: string
  readonly shape: Shape
  readonly defaultPageSize: number
  rateLimit: RateLimit | null
  faults: readonly FaultRule[]
  /** Faults for the next requests, one each; they take precedence over rules. */
  readonly next: { readonly path: string; readonly rule: FaultRule }[]
  /** Refusals that continue over several requests. */
  readonly bursts: Bursts
  /** Requests that faults could have applied to so far; it makes faults the same in every run. */
  requests: number
}
