import { defineConfig } from 'vitest/config'

/** `npm run conformance`: the only way in which the suite may call a real service. */
export default defineConfig({
  test: {
    include: ['test/conformance/**/*.test.ts'],
    setupFiles: ['test/support/after-each-file.ts'],
    provide: { mayAskRealService: true },
    reporters: ['verbose'],
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 120_000,
  },
})
