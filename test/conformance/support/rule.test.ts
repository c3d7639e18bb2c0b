import { expect, it } from 'vitest'
import { withoutValues } from './rule.ts'

function thrownBy(assertion: () => void): unknown {
  try {
    assertion()
  } catch (error) {
    return withoutValues(error)
  }
  throw new Error('nothing was thrown')
}

it('a failure against a real service shows no text and no record', () => {
  const person = { last_name: 'Secretly', tags: ['Secretly'] }
  for (const assertion of [
    () => expect(person).toEqual({}),
    () => expect(person.last_name).toBe('Other'),
    () => expect(person.last_name).toMatch(/other/),
    () => expect(person).toHaveProperty('email'),
    () => expect(person).toMatchObject({ last_name: 'Other' }),
    () => expect(person.tags).toContain('other'),
    () => expect(person.tags).toHaveLength(2),
    () => expect(new Set(person.tags)).toEqual(new Set()),
  ]) {
    const { message, stack, ...rest } = Object.assign({ message: '', stack: '' }, ownOf(thrownBy(assertion)))
    expect(`${message} ${stack} ${JSON.stringify(rest)}`).not.toContain('Secretly')
    expect(stack).toContain('rule.test.ts')
  }
})

it('an unexpected status is shown nevertheless', () => {
  expect(thrownBy(() => expect(404).toBe(200))).toMatchObject({ message: expect.stringContaining('404') })
})

function ownOf(error: unknown): Record<string, unknown> {
  const own = Object.getOwnPropertyNames(error).map((name) => [
    name,
    (error as Record<string, unknown>)[name],
  ])
  return Object.fromEntries(own)
}
