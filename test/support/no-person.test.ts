/** The check of all output of commands in tests finds persons of the emulator and allows ordinary output. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import type { Ended } from './cli.ts'
import { withoutPersons } from './no-person.ts'

let emulator: Emulator

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 60, responses: 60 })
})
afterAll(async () => {
  await emulator.close()
})

const ended = (stdout: string, stderr = ''): Ended => ({
  ...{ code: 0, signal: null, stdout, stderr, output: stdout + stderr, seconds: 0 },
})

test('a patient or a response in a log is found, whatever else the line contains', () => {
  const world = emulator.control.world()
  const everybody = Array.from({ length: 60 }, (_, at) => JSON.stringify(world.patients.at(at)))
  const answers = Array.from({ length: 60 }, (_, at) => JSON.stringify(world.responses.at(at)))
  const seen = (line: string) => {
    try {
      return withoutPersons(['backfill'], ended('', `{"level":20,"msg":${line}}`)) === undefined
    } catch {
      return true
    }
  }
  // A single person may share all words with ordinary output, but a leak contains many persons.
  expect(everybody.filter(seen).length).toBeGreaterThan(40)
  expect(answers.filter(seen).length).toBeGreaterThan(5)
})

test('a command may print values on request, but never log them', () => {
  const line = 'patient7@example.com'
  for (const words of [
    ['api', 'GET', '/v2/patients'],
    ['explain', 'patients', 'x', '--show-values'],
  ]) {
    expect(withoutPersons(words, ended(line)).stdout).toBe(line)
    expect(() => withoutPersons(words, ended('', line))).toThrow('says what is a person')
  }
  expect(() => withoutPersons(['status'], ended(line))).toThrow('status says')
  expect(withoutPersons(['status'], ended('patients 7')).stdout).toBe('patients 7')
})
