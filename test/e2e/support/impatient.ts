/**
 * For a test file whose runs are in its own process: pauses between attempts, and waits for locks, take almost no time.
 * Their real length is tested where it is decided.
 */

import { afterAll, beforeAll, vi } from 'vitest'
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

/** The replacement for src/warehouse/connect.ts in `vi.mock`. */
export async function withShortLocks(original: () => Promise<typeof connect>): Promise<typeof connect> {
  const actual = await original()
  return { ...actual, openSession: (options) => actual.openSession({ lockTimeoutMs: 1_500, ...options }) }
}
