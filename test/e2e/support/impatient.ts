/**
 * For a test file whose runs are in its own process: pauses between attempts, and waits for locks, that are real time
 * without being the point, take almost none. How long they are is tested where they are decided.
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

/** What `vi.mock` puts in the place of src/warehouse/connect.ts. */
export async function withShortLocks(original: () => Promise<typeof connect>): Promise<typeof connect> {
  const actual = await original()
  return { ...actual, openSession: (options) => actual.openSession({ lockTimeoutMs: 500, ...options }) }
}
