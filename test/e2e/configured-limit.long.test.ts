/** A run keeps to the limit that is configured, in the environment or for a team: it takes the time that this needs. */
import { expect, test } from 'vitest'
import { runCommand } from '../support/run-command.ts'
import { openScene } from './support/scene.ts'
import { configOf, teamOf } from './support/teams.ts'

const LIMIT = 8

interface Summary {
  readonly streams: Readonly<Record<string, { readonly requests: number }>>
}

/** Requests `LIMIT` apart are sent a second apart at least, however slow or fast the machine is. */
async function expectKept(env: NodeJS.ProcessEnv): Promise<void> {
  const begun = performance.now()
  const { code, stdout } = await runCommand(['backfill', '--full', '--json'], env)
  const seconds = (performance.now() - begun) / 1000
  expect(code).toBe(0)
  const { streams }: Summary = JSON.parse(stdout)
  const requests = Object.values(streams).reduce((total, stream) => total + stream.requests, 0)
  expect(requests).toBeGreaterThan(3 * LIMIT)
  expect(seconds).toBeGreaterThan(Math.floor((requests - 1) / LIMIT))
}

test('INTAKE_RATE_LIMIT is kept', async () => {
  await using scene = await openScene({ pageSize: 5 })
  await expectKept({ ...scene.env, INTAKE_RATE_LIMIT: `${LIMIT}/s` })
})

test('rateLimit of a team in INTAKE_CONFIG is kept too', async () => {
  await using scene = await openScene({ pageSize: 5 })
  const team = { ...teamOf('north', scene.emulator), rateLimit: `${LIMIT}/s` }
  await expectKept({ ...configOf([team]), DATABASE_URL: scene.env.DATABASE_URL })
})
