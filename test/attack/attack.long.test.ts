/** `npm run attack`: what it tries holds, and it finds what is opened. The attacks on the endpoint need a quiet machine. */
import { spawnSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const attack = (...words: readonly string[]) => {
  const program = join(import.meta.dirname, 'run.ts')
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', program, ...words], {
    ...{ encoding: 'utf8', timeout: 240_000, cwd: resolve(import.meta.dirname, '../..') },
  })
  return { status, stdout, stderr }
}

test('fifty odd requests, logins that only read, and forty groups of queries of an analyst succeed in nothing', () => {
  const { status, stdout } = attack('--only', 'requests,logins,queries')
  expect([status, stdout.split('\n').filter((line) => /WRONG/.test(line))]).toEqual([0, []])
  expect(stdout.match(/^request: .* refused$/gm)!.length).toBeGreaterThanOrEqual(50)
  expect(stdout.match(/^query: .* refused$/gm)!.length).toBeGreaterThanOrEqual(40)
})

test('what is opened is found, by name, and it exits with 4', () => {
  const opened =
    'grant usage on schema intake to intake_analyst; grant select on intake.messages to intake_analyst'
  const { status, stdout } = attack('--only', 'queries', '--weaken', opened)
  expect([status, stdout]).toEqual([4, expect.stringContaining('ran: select from intake.messages')])
  expect(stdout).toMatch(/^query: tables of patients and answers +WRONG/m)
  expect(stdout).toMatch(/^query: keys and secrets +refused$/m)
})

test('an attack that does not exist is wrong usage', () => {
  expect(attack('--only', 'nothing')).toMatchObject({ status: 2, stderr: expect.stringContaining('nothing') })
})
