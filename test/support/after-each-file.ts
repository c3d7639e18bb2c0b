/** Loaded again before each test file, unlike modules that the file imports: see `setupFiles` in the configurations. */
import fc from 'fast-check'
import { afterAll } from 'vitest'
import './defects.ts'
import { often } from './thorough.ts'
import { endFile } from './when-file-ends.ts'

// Each run tries the same cases, so that its result depends only on the change; TEST_THOROUGH=1 and `npm run fuzz` draw new ones.
fc.configureGlobal(process.env.FUZZ_MINUTES === undefined ? often({ seed: 20261123 }, {}) : {})

afterAll(endFile)
