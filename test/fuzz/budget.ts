/**
 * How long a property is tried: a few seconds in `npm test`, ten times as often with TEST_THOROUGH=1, and for minutes by
 * `npm run fuzz -- --minutes N` (FUZZ_MINUTES, per property; FUZZ_SEED and FUZZ_PATH repeat one case).
 *
 * Invariant: `npm test` tries the same cases each time, so that its result depends only on the change; the other two draw
 * new ones. A started case is finished. A failing case is printed with the seed and path that repeat it; where a case
 * takes long, it is printed before it is shrunk.
 */
import fc from 'fast-check'
import { expect } from 'vitest'
import { often } from '../support/thorough.ts'

const minutes = Number(process.env.FUZZ_MINUTES ?? 0)
/** Of the cases of `npm test`. */
const USUAL_SEED = '20261122'
const { FUZZ_SEED: seed, FUZZ_PATH: path } = process.env

/** With fewer cases per second than this, shrinking would outlast the test. */
const QUICK = 100

/** Tries a property: `usual` cases in `npm test`, and as many again until the time is over. */
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

/** The timeout of a test that tries a property: longer for more cases, and for a slow machine. */
export const PATIENCE = { timeout: minutes * 60_000 + often(300_000, 1_200_000) }

/** Matches nothing that a stack trace contains. */
export function expectNoStack(text: string): void {
  expect(text).not.toMatch(/^\s+at \S|node:internal|\.ts:\d+|node_modules/m)
}
