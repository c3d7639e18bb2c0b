/** Workers of planned runs, killed a hundred times at points that a seed chooses. */
import { expect, it } from 'vitest'
import { expectedOf, storedTables } from '../e2e/support/expected.ts'
import { openWarehouse } from '../e2e/support/scene.ts'
import { killWorkers } from './workers.ts'

const STREAMS = /^(?:patient|form|packet|question)/

it('no slice is lost and none is settled twice, each run ends once, and the tables equal the source, wherever workers are killed', async () => {
  await using warehouse = await openWarehouse()
  const { url } = warehouse
  const lines: string[] = []
  const outcome = await killWorkers({
    ...{ url, seed: 1, kills: 100, say: (line) => void lines.push(line) },
    async check(team, world) {
      const [stored, expected] = [await storedTables(url, team), expectedOf(world)]
      const names = Object.keys(expected).filter((name) => STREAMS.test(name))
      return names
        .filter((name) => String(stored[name]) !== String(expected[name]))
        .map((name) => `${team}: ${name}`)
    },
  })
  expect(outcome.faults, lines.join('\n')).toEqual([])
  expect(Object.values(outcome.killed).reduce((sum, count) => sum + count)).toBe(100)
  for (const [point, count] of Object.entries(outcome.killed)) expect(count, point).toBeGreaterThan(10)
  expect(outcome.takeovers).toBeGreaterThan(50)
})
