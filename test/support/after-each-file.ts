/** Loaded again before each test file, unlike modules that the file imports: see `setupFiles` in the configurations. */
import { afterAll } from 'vitest'
import './defects.ts'
import { endFile } from './when-file-ends.ts'

afterAll(endFile)
