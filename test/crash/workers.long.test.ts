/** Workers of planned runs, killed a hundred times at points that a seed chooses; `npm run crash -- --workers 1000` kills more. */
import { expect, it } from 'vitest'
import { openWarehouse } from '../e2e/support/scene.ts'
import { killWorkers } from './workers.ts'

it('no slice is lost, nothing has an effect twice, and the tables equal the source, wherever workers are killed', async () => {
  await using warehouse = await openWarehouse()
  const { url } = warehouse
  const lines: string[] = []
  const outcome = await killWorkers({ url, seed: 1, kills: 100, say: (line) => void lines.push(line) })
  expect(outcome.faults, lines.join('\n')).toEqual([])
  expect(Object.values(outcome.killed).reduce((sum, count) => sum + count)).toBe(100)
  for (const [point, count] of Object.entries(outcome.killed)) expect(count, point).toBeGreaterThan(10)
  expect(outcome.takeovers).toBeGreaterThan(50)
  expect(outcome.posts).toBeGreaterThan(5)
})
