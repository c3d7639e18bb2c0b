/**
 * One rule of the specification as a test.
 *
 * Invariant: a rule that the service at hand cannot be asked about is skipped with its reason in the report; it is
 * never passed silently. What a real service sent is in no report.
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

/** Thrown where a real service, within its rights, gives a test nothing to go on with. */
export class CannotTell extends Error {}

export type Skip = (reason: string) => never

/** `title` quotes the rule; `test` may skip for want of data. */
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

/** An error that tells where and, for numbers and booleans, what; texts and records may be those of people. */
export function withoutValues(error: unknown): unknown {
  if (!(error instanceof Error) || error.name !== 'AssertionError') return error
  const told = new Error(
    PLAIN.test(error.message)
      ? error.message
      : 'what was sent does not satisfy the rule (values are not shown)',
  )
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  told.stack = [`Error: ${told.message}`, ...frames].join('\n')
  return told
}
