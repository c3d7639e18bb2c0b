/**
 * Before each test file of a mutated part, in place of test/support/after-each-file.ts, whose watch for defects loads
 * the warehouse.
 */
import fc from 'fast-check'
import { afterAll, inject } from 'vitest'
import { endFile } from '../support/when-file-ends.ts'

// The first counterexample of a property is enough, the smallest takes long. Every run tries the same cases, as far as it
// gets in a quarter of a second: a surviving mutant runs them all.
fc.configureGlobal({ endOnFailure: true, seed: 1, interruptAfterTimeLimit: 250 })
afterAll(endFile)

/**
 * Files of one run share their modules, and Stryker sets the mutant before the first test of each. While the next file
 * is loaded there is none, so that a mutant cannot take tests away by a failure to load.
 */
const stryker = globalThis as { __stryker__?: { activeMutant?: string | undefined } }
const { mode, mutantActivation } = {
  mode: inject('mode' as never),
  mutantActivation: inject('mutantActivation' as never),
}
if (mode === 'mutant' && mutantActivation === 'runtime' && stryker.__stryker__ !== undefined) {
  stryker.__stryker__.activeMutant = undefined
}
