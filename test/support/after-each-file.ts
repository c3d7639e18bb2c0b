/** Loaded anew before each test file, unlike what the file imports: `setupFiles` of the configurations. */
import { afterAll } from 'vitest'
import './defects.ts'
import { endFile } from './when-file-ends.ts'

afterAll(endFile)
