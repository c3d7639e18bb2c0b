/** What the program knows: its variables and its command lines. What a file that ships names has to be among them. */
import { expect } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { runCommand } from '../support/run-command.ts'

/** What others than intake-sync read. */
const OTHERS = ['TZ', 'NODE_ENV', 'PATH', 'SHELL']

/** Every variable that the configuration asks for when all of it is read. */
function knownVariables(): ReadonlySet<string> {
  const asked = new Set<string>()
  const team = {
    ...{ INTAKE_BASE_URL: 'https://intake.example.com', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' },
    INTAKE_ALERT_URL: 'https://alerts.example.com',
  }
  const env = new Proxy(team as NodeJS.ProcessEnv, {
    get(given, name) {
      asked.add(String(name))
      return given[String(name)]
    },
  })
  readConfig(env)
  return asked
}

export function expectVariables(names: Iterable<string>): void {
  const known = knownVariables()
  const unknown = [...names].filter((name) => !known.has(name) && !OTHERS.includes(name))
  expect(unknown).toEqual([])
}

/** The words after `intake-sync`: command, nested command, options and their values. */
export async function expectCommand(words: readonly string[]): Promise<void> {
  const at = words.findIndex((word) => word.startsWith('-'))
  const named = words.slice(0, at < 0 ? undefined : at)
  expect(named.length).toBeGreaterThan(0)
  const { code, stdout } = await runCommand([...named, '--help'], {})
  expect([named, code]).toEqual([named, 0])
  expect(stdout).toMatch(new RegExp(`^Usage: intake-sync ${named[0]}`))
  for (const option of words.filter((word) => word.startsWith('--'))) {
    expect([words, stdout]).toEqual([words, expect.stringMatching(new RegExp(`${option}\\b`))])
  }
}

/** The words of a line that runs the built command line. */
export function wordsAfterCli(line: string): readonly string[] {
  const rest = /(?:\/dist\/cli\.js|\bintake-sync) (.+)$/.exec(line)?.[1] ?? ''
  return rest
    .split(/\s*\d?[>|;&]/)[0]!
    .split(/\s+/)
    .filter((word) => word !== '')
}
