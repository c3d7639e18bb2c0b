/** What holds for both environments; the part that is not `readonly` may be changed while the emulator runs. */
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
  /** Faults that strike the next requests, one each, before any rule is asked. */
  readonly next: { readonly path: string; readonly rule: FaultRule }[]
  /** Refusals that go on from one request to the next. */
  readonly bursts: Bursts
  /** Requests that could have been struck so far: what makes faults the same in every run. */
  requests: number
}
