/** The tests of one group, as the mutation tool runs them: without a Postgres. See run.ts. */
import { resolve } from 'node:path'
import { defineConfig } from 'vitest/config'
import { settings } from '../../vitest.config.ts'

export default defineConfig({
  test: {
    ...settings,
    root: resolve(import.meta.dirname, '../..'),
    include: JSON.parse(process.env.MUTATE_TESTS ?? '[]') as string[],
    setupFiles: ['test/mutate/setup.ts'],
    // Loading what files import takes longer than most tests.
    isolate: false,
    // Many times what the slowest of them takes: a mutant that makes a test wait is caught by it.
    testTimeout: 5_000,
  },
})
