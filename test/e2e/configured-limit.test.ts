/** A run keeps to the limit that is configured, of the environment or of a team, and so is never throttled. */
import { expect, test } from 'vitest'
import { runCommand } from '../support/run-command.ts'
import { openScene } from './support/scene.ts'
import { configOf, teamOf } from './support/teams.ts'

const LIMIT = 15

interface Summary {
  readonly streams: Readonly<Record<string, { readonly requests: number; readonly throttled: number }>>
}

function sumOf({ streams }: Summary) {
  const reports = Object.values(streams)
  return {
    requests: reports.reduce((total, { requests }) => total + requests, 0),
    throttled: reports.reduce((total, { throttled }) => total + throttled, 0),
  }
}

test('INTAKE_RATE_LIMIT is kept', async () => {
  await using scene = await openScene({ rateLimit: LIMIT, pageSize: 5 })
  const env = { ...scene.env, INTAKE_RATE_LIMIT: `${LIMIT}/s` }
  const { code, stdout } = await runCommand(['backfill', '--full', '--json'], env)
  expect(code).toBe(0)
  const { requests, throttled } = sumOf(JSON.parse(stdout))
  expect(requests).toBeGreaterThan(LIMIT)
  expect(throttled).toBe(0)
})

test('rateLimit of a team in INTAKE_CONFIG is kept too', async () => {
  await using scene = await openScene({ rateLimit: LIMIT, pageSize: 5 })
  const team = { ...teamOf('north', scene.emulator), rateLimit: `${LIMIT}/s` }
  const env = { ...configOf([team]), DATABASE_URL: scene.env.DATABASE_URL }
  const { code, stdout } = await runCommand(['backfill', '--full', '--json'], env)
  expect(code).toBe(0)
  const { requests, throttled } = sumOf(JSON.parse(stdout))
  expect(requests).toBeGreaterThan(LIMIT)
  expect(throttled).toBe(0)
})
