import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fileToWrite, readWords, someOf, wholeNumber } from './words.ts'

const USAGE = 'npm run example -- [--seed N]\n\n  --seed N  which'

let said: string

beforeEach(() => {
  said = ''
  vi.spyOn(process, 'exit').mockImplementation((code) => {
    throw new Error(`ended with ${code}`)
  })
  for (const stream of [process.stdout, process.stderr])
    vi.spyOn(stream, 'write').mockImplementation((text) => {
      said += text
      return true
    })
})

afterEach(() => vi.restoreAllMocks())

const read = (...words: string[]) =>
  readWords(USAGE, { seed: { type: 'string' }, quick: { type: 'boolean' } }, { words }).values

test('a number below zero is the value of the option before it', () => {
  expect(read('--seed', '-12').seed).toBe('-12')
  expect(read('--seed=-12', '--quick')).toMatchObject({ seed: '-12', quick: true })
})

test('--help prints the usage, whatever else was given', () => {
  expect(() => read('--nonsense', '--help')).toThrow('ended with 0')
  expect(said).toBe(`${USAGE}\n`)
})

test.each([
  ['an unknown option', () => read('--nonsense')],
  ['an option without its value', () => read('--seed')],
  ['a word that is no option', () => read('stray')],
  ['a count that is none', () => wholeNumber('--seeds', 'abc')],
  ['a count of nothing', () => wholeNumber('--seeds', '0')],
  ['a count below zero', () => wholeNumber('--seeds', '-1')],
  ['half of a count', () => wholeNumber('--seeds', '1.5')],
  ['an empty count', () => wholeNumber('--seeds', '')],
  ['a count that no number holds', () => wholeNumber('--seeds', '9'.repeat(20))],
  ['a name that is none', () => someOf('--only', 'load,lode', ['load', 'drain'])],
  ['no name', () => someOf('--only', '', ['load', 'drain'])],
  ['a file in a folder that is not there', () => fileToWrite('--json', '/nowhere/at/all.json')],
  ['a folder in place of a file', () => fileToWrite('--json', tmpdir())],
])('%s ends the command with 2 and one sentence that names it', (_, ask) => {
  expect(ask).toThrow('ended with 2')
  expect(said).toMatch(/^[^\n]*(--|stray)[^\n]*\n$/)
})

test('what can be meant is taken', () => {
  expect(wholeNumber('--seed', '0', 0)).toBe(0)
  expect(someOf('--only', 'drain, load', ['load', 'drain'])).toEqual(['drain', 'load'])
  expect(fileToWrite('--json', join(tmpdir(), 'rows.json'))).toBe(join(tmpdir(), 'rows.json'))
})
