/** Processes of one team that share a small limit: each finishes, and Ctrl-C ends a wait at once. */
import { expect, test } from 'vitest'
import { runCli, startCli } from '../support/cli.ts'
import { startOwnTime } from '../support/own-time.ts'
import { openScene, openWarehouse } from './support/scene.ts'

test('two processes that share four requests a second both succeed', async () => {
  await using scene = await openScene({ rateLimit: 4 })
  const other = await openWarehouse()
  try {
    const runs = await Promise.all([
      runCli(['backfill', '--json'], scene.env),
      runCli(['backfill', '--json'], { ...scene.env, DATABASE_URL: other.url }),
    ])
    expect(runs.map(({ code }) => code)).toEqual([0, 0])
    const { streams } = JSON.parse(runs[0]!.stdout)
    expect(streams.patients).toMatchObject({ fetched: 45, dead_letters: 0 })
    const throttled = runs.flatMap(({ stdout }) =>
      Object.values<{ throttled: number }>(JSON.parse(stdout).streams).map((each) => each.throttled),
    )
    // The limit was met: neither run was simply slow enough.
    expect(throttled.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(0)
  } finally {
    await other.drop()
  }
})

test('a process that waits for the limit ends at once when interrupted, and the next run continues', async () => {
  await using scene = await openScene({ rateLimit: { requests: 1, seconds: 600 } })
  const run = startCli(['backfill'], { ...scene.env, LOG_LEVEL: 'info' })
  await run.said('throttled')
  using time = startOwnTime()
  run.kill('SIGINT')
  expect((await run.ended).code).toBe(130)
  expect(time.milliseconds).toBeLessThan(5_000)
  scene.emulator.control.setRateLimit(null)
  expect((await scene.backfill()).code).toBe(0)
})
