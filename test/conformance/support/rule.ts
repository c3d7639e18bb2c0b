/**
 * One rule of the specification as a test.
 *
 * Invariant: a rule that cannot be tested against the given service is skipped with its reason in the report, and never
 * passed silently. No report contains data of a real service.
 */
import { spawnSync } from 'node:child_process'
import { it } from 'vitest'
import { real } from '../../support/service-under-test.ts'

/** Requirements of a rule beyond reading with one team's credentials. */
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

/** Thrown if a real service, within its rights, gives a test no data to work with. */
export class CannotTell extends Error {}

export type Skip = (reason: string) => never

/** `title` quotes the rule; `test` may skip for lack of data. */
export function rule(title: string, needs: readonly Need[], test: (skip: Skip) => Promise<void>): void {
  it(title, async (context) => {
    const skip: Skip = (reason) => context.skip(reason)
    const missing = needs.map((need) => MISSING[need]()).find((reason) => reason !== undefined)
    if (missing !== undefined) skip(missing)
    try {
      await test(skip)
    } catch (error) {
      if (error instanceof CannotTell) skip(error.message)
      throw real === undefined ? error : withoutValues(error)
    }
  })
}

/** A number or a boolean where another was expected. */
const PLAIN = /^expected (-?\d+(\.\d+)?|true|false) to be (-?\d+(\.\d+)?|true|false)\b/

/** An error with the place and, for numbers and booleans, the values; texts and records may be personal data. */
export function withoutValues(error: unknown): unknown {
  if (!(error instanceof Error) || error.name !== 'AssertionError') return error
  const reported = new Error(
    PLAIN.test(error.message)
      ? error.message
      : 'what was sent does not satisfy the rule (values are not shown)',
  )
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  reported.stack = [`Error: ${reported.message}`, ...frames].join('\n')
  return reported
}
