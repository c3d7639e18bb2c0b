import { readdirSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'

export const settings = {
  setupFiles: ['test/support/after-each-file.ts'],
  // Also of a machine six times slower: what hangs is found all the same.
  testTimeout: 180_000,
  hookTimeout: 300_000,
  // What is waited for ends the waiting when it comes: one second, the default, is a bet on the machine.
  expect: { poll: { timeout: 60_000 } },
  // The report of a run names what differed, not only how many: a rare failure may not come again.
  chaiConfig: { truncateThreshold: 2_000 },
  pool: 'forks' as const,
  maxWorkers: 3,
}

export const globalSetup = ['test/support/global-setup.ts']

/** What takes long has a run of its own: vitest.long.config.ts. */
const exclude = ['node_modules/**', 'test/**/*.long.test.ts']

/** Files that put other modules in the place of ours: that has to be done before anything is loaded. */
const mocking = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts') && !name.endsWith('.long.test.ts'))
  .map((name) => `test/${name}`)
  .filter((path) => readFileSync(path, 'utf8').includes('vi.mock('))

/** Loading what files import takes a fifth of the time: done once for each worker, not for each file, where it may be. */
export default defineConfig({
  test: {
    globalSetup,
    projects: [
      { test: { ...settings, name: 'alone', include: mocking } },
      {
        test: {
          ...settings,
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: [...exclude, ...mocking],
          isolate: false,
        },
      },
    ],
  },
})
