/** The tests of one part, as the mutation tool runs them: without a Postgres. See run.ts. */
import { resolve } from 'node:path'
import { defineConfig } from 'vitest/config'
import { settings } from '../../vitest.config.ts'
import { partNamed } from './parts.ts'

export default defineConfig({
  test: {
    ...settings,
    root: resolve(import.meta.dirname, '../..'),
    include: [...partNamed(process.env.MUTATE_PART).tests],
    setupFiles: [...settings.setupFiles, 'test/mutate/setup.ts'],
    // A mutant that makes a test wait is as good as caught.
    testTimeout: 20_000,
  },
})
