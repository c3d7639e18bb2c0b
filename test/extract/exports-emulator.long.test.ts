/** All that exports-emulator.test.ts tries, where `npm test` tries a part: each shape in both versions, every fault. */
process.env.TEST_THOROUGH = '1'
await import('./exports-emulator.test.ts')
