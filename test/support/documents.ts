/**
 * Every document of `--json` that a command prints in a test has the form that its schema in schemas/ states.
 *
 * Invariant: the schemas allow further keys, so that adding one breaks no reader; here they allow none, so that a key
 * that no schema names fails its test.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import type { Ended } from './cli.ts'

const FOLDER = join(import.meta.dirname, '../../schemas')
const GROUPS = new Set(
  'access classify config dbt dead-letters erase instruments patients privacy receipt runs teams webhooks'.split(
    ' ',
  ),
)

/** It prints the body of the service as received. */
export const OTHERS: ReadonlySet<string> = new Set(['api'])

const ajv = new Ajv2020({ allowUnionTypes: true })
const checks = new Map<string, ValidateFunction>()

/** Returns the finished command; throws if its document has another form. `whole`: standard output was not redirected. */
export function withKnownDocument(words: readonly string[], ended: Ended, whole = true): Ended {
  if (!words.includes('--json') || OTHERS.has(schemaOf(words)) || ended.stdout === '') return ended
  let document: unknown
  try {
    document = JSON.parse(ended.stdout)
  } catch (error) {
    if (whole) throw new Error(`${words.join(' ')} printed what is not one JSON document`, { cause: error })
    return ended
  }
  const name = isError(document) ? 'error' : schemaOf(words)
  const check = checks.get(name) ?? compiled(name)
  checks.set(name, check)
  if (check(document)) return ended
  throw new Error(
    `${words.join(' ')} printed a document unlike schemas/${name}.json: ${ajv.errorsText(check.errors)}`,
  )
}

export function schemaOf(words: readonly string[]): string {
  // Options of a group may precede its command.
  const [command = '', nested = ''] = words.filter((word) => !word.startsWith('-'))
  return GROUPS.has(command) && /^[a-z]/.test(nested) ? `${command}-${nested}` : command
}

function isError(document: unknown): boolean {
  return typeof document === 'object' && document !== null && Object.keys(document).join() === 'error'
}

function compiled(name: string): ValidateFunction {
  const path = join(FOLDER, `${name}.json`)
  if (!existsSync(path)) throw new Error(`schemas/${name}.json is missing: the command has --json`)
  return ajv.compile(closed(JSON.parse(readFileSync(path, 'utf8'))) as object)
}

/** The schema without further keys than it names. */
export function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const entries = Object.entries(schema).map(([key, value]) => [
    key,
    key === 'required' || key === 'enum' ? value : closed(value),
  ])
  const all = Object.fromEntries(entries)
  return 'properties' in all && !('additionalProperties' in all)
    ? { ...all, additionalProperties: false }
    : all
}
