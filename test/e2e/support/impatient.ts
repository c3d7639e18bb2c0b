/**
 * For a test file whose runs are in its own process: pauses between attempts, and waits for locks, take almost no time.
 * Their real length is tested where it is decided.
 */

import { afterAll, beforeAll, beforeEach, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type * as connect from '../../../src/warehouse/connect.ts'

/** Pauses are drawn between nothing and their greatest length: always nearly nothing. */
export function withoutPauses(): void {
  beforeAll(() => {
    vi.spyOn(Math, 'random').mockReturnValue(0.01)
  })
  afterAll(() => {
    vi.restoreAllMocks()
  })
}

/** The pauses of a verification before it compares again. */
export interface SecondLooks {
  /** Their lengths, in milliseconds. */
  readonly pauses: number[]
  /** What happens in each of them. */
  meanwhile: () => Promise<unknown>
}

/** Called by it, and not by what it waits for. */
const BY_VERIFY = /\n\s+at (?!async )[^\n]*verify\/confirm\.ts/

/** For a test file whose verifications are in its own process: the pauses of each test are noted, and take no time. */
export function withoutPausesOfVerify(): SecondLooks {
  const looks: SecondLooks = { pauses: [], meanwhile: async () => {} }
  const { sleep } = systemClock
  beforeEach(() => {
    looks.pauses.splice(0)
    looks.meanwhile = async () => {}
    vi.spyOn(systemClock, 'sleep').mockImplementation(async (milliseconds, signal) => {
      if (!BY_VERIFY.test(new Error().stack!)) return await sleep(milliseconds, signal)
      looks.pauses.push(milliseconds)
      await looks.meanwhile()
    })
  })
  afterAll(() => {
    vi.restoreAllMocks()
  })
  return looks
}

/** The replacement for src/warehouse/connect.ts in `vi.mock`. */
export async function withShortLocks(original: () => Promise<typeof connect>): Promise<typeof connect> {
  const actual = await original()
  return { ...actual, openSession: (options) => actual.openSession({ lockTimeoutMs: 1_500, ...options }) }
}
