/**
 * How long a property is tried: a few seconds within `npm test`, ten times as often with TEST_THOROUGH=1, and for
 * minutes by `npm run fuzz -- --minutes N` (FUZZ_MINUTES, for each property; FUZZ_SEED and FUZZ_PATH try one case again).
 *
 * Invariant: `npm test` tries the same cases each time, so that what it says hangs on the change alone; new ones are drawn
 * by the other two. A case that has begun is finished; one that fails is told with the seed and the path by which it is
 * made again, and at once where a case takes long: it is made smaller when it is tried again.
 */
import fc from 'fast-check'
import { expect } from 'vitest'
import { often } from '../support/thorough.ts'

const minutes = Number(process.env.FUZZ_MINUTES ?? 0)
/** Of the cases of `npm test`. */
const USUAL_SEED = '20261122'
const { FUZZ_SEED: seed, FUZZ_PATH: path } = process.env

/** Of properties that take less, cases take so long that making one smaller would outlast the test. */
const QUICK = 100

/** Tries a property: `usual` cases within `npm test`, and as many again until the time is over. */
export async function holds<Drawn extends [unknown, ...unknown[]]>(
  property: fc.IProperty<Drawn> | fc.IAsyncProperty<Drawn>,
  usual: number,
  examples: Drawn[] = [],
): Promise<void> {
  const from = seed ?? (minutes > 0 ? undefined : often(USUAL_SEED, undefined))
  const again = { ...(from ? { seed: Number(from) } : {}), ...(path ? { path } : {}) }
  const end = performance.now() + minutes * 60_000
  do {
    await fc.assert(property as fc.IAsyncProperty<Drawn>, {
      numRuns: often(usual, usual * 10),
      examples,
      endOnFailure: usual < QUICK && seed === undefined,
      ...again,
    })
  } while (performance.now() < end && seed === undefined)
}

/** Of a test that tries a property: what is tried longer may take longer, and so may a slow machine. */
export const PATIENCE = { timeout: minutes * 60_000 + often(120_000, 1_200_000) }

/** Matches nothing of what a stack trace is made of. */
export function expectNoStack(text: string): void {
  expect(text).not.toMatch(/^\s+at \S|node:internal|\.ts:\d+|node_modules/m)
}
