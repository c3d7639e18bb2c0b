import { defineConfig } from 'vitest/config'
import base from './vitest.config.ts'

/** `npm run test:long`: processes that are killed, schedules that come round, every shape under every fault. */
export default defineConfig({
  test: { ...base.test, include: ['test/**/*.long.test.ts'], exclude: ['node_modules/**'] },
})
