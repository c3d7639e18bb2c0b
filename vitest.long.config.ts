import { defineConfig } from 'vitest/config'
import { globalSetup, settings } from './vitest.config.ts'

/** `npm run test:long`: processes that are killed, schedules that come round, every shape under every fault. */
export default defineConfig({
  test: {
    ...settings,
    // Tests of many cases at once share what the machine leaves them.
    testTimeout: 600_000,
    maxWorkers: 2,
    globalSetup,
    include: ['test/**/*.long.test.ts'],
    exclude: ['node_modules/**'],
  },
})
