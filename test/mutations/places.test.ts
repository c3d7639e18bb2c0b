/** Each deliberate bug has its place in the current code. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { MUTATIONS } from './mutations.ts'

test.each(MUTATIONS.map((each) => [each.bug, each] as const))(
  '%s: its text is in its file once',
  (_, { file, from }) => {
    const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
    expect(text.split(from).length - 1).toBe(1)
  },
)
