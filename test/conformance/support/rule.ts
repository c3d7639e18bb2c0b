/**
 * One rule of the specification as a test.
 *
 * Invariant: a rule that the service at hand cannot be asked about is skipped with its reason in the report; it is
 * never passed silently.
 */
import { spawnSync } from 'node:child_process'
import { it } from 'vitest'
import { real } from '../../support/service-under-test.ts'

/** What a rule needs beyond reading with one team's credentials. */
export type Need = 'writing' | 'control' | 'another team' | 'a receiver' | 'openssl' | 'an assumption'

const onlyEmulator = (reason: string) => () => (real === undefined ? undefined : reason)

const MISSING: Readonly<Record<Need, () => string | undefined>> = {
  writing: () =>
    real === undefined || real.mayWrite ? undefined : 'changes data; set CONFORMANCE_WRITE=1 to allow it',
  control: onlyEmulator('needs a patient who answers, or another time: only the emulator has them'),
  'another team': onlyEmulator('needs credentials of another team or environment'),
  'a receiver': onlyEmulator('a real service cannot reach a receiver on this machine'),
  'an assumption': onlyEmulator('the specification is silent; a real service may do otherwise'),
  openssl: () => (spawnSync('openssl', ['version']).status === 0 ? undefined : 'openssl is not installed'),
}

export type Skip = (reason: string) => never

/** `title` quotes the rule; `test` may skip for want of data. */
export function rule(title: string, needs: readonly Need[], test: (skip: Skip) => Promise<void>): void {
  it(title, async (context) => {
    const skip: Skip = (reason) => context.skip(reason)
    const missing = needs.map((need) => MISSING[need]()).find((reason) => reason !== undefined)
    if (missing !== undefined) skip(missing)
    await test(skip)
  })
}
