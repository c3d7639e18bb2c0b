/** The list of deliberate bugs is about the code as it stands. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { MUTATIONS } from './mutations.ts'

test.each(MUTATIONS.map((each) => [each.bug, each] as const))(
  '%s: its words stand in its file once',
  (_, { file, from }) => {
    const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
    expect(text.split(from).length - 1).toBe(1)
  },
)
