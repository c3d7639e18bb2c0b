/** All cases of exports-emulator.test.ts: each shape in both versions, every fault. `npm test` runs a part of them. */
process.env.TEST_THOROUGH = '1'
await import('./emulator.test.ts')
