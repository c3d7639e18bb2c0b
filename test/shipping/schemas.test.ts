/** Each command with --json ships the schema of its document. test/support/documents.ts compares what commands print. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { everyCommand } from '../../src/commands/program.ts'
import { OTHERS, schemaOf, withKnownDocument } from '../support/documents.ts'
import { runCommand } from '../support/run-command.ts'

const root = resolve(import.meta.dirname, '../..')
const read = (name: string) => JSON.parse(readFileSync(join(root, 'schemas', name), 'utf8'))

/** The commands that print one JSON document. */
function withJson(
  commands: readonly Command[],
  above: readonly string[] = [],
): readonly (readonly string[])[] {
  return commands.flatMap((command) => {
    const words = [...above, command.name()]
    const own = command.options.some(({ long }) => long === '--json') ? [words] : []
    return [...own, ...withJson(command.commands, words)]
  })
}

it('there is a schema for each command with --json, for an error, for the file of settings, and no other', async () => {
  const context = { env: {}, stdout: { write: () => true }, stderr: { write: () => true } }
  const commands = await everyCommand({ ...context, signal: new AbortController().signal, version: '' })
  const named = withJson(commands).map(schemaOf)
  const expected = [...named.filter((name) => !OTHERS.has(name)), 'config-file', 'error'].map(
    (name) => `${name}.json`,
  )
  expect(readdirSync(join(root, 'schemas')).toSorted()).toEqual(expected.toSorted())
})

it.each(readdirSync(join(root, 'schemas')))('%s is a JSON Schema that says something', (name) => {
  const schema = read(name)
  expect(schema.$schema).toBe('https://json-schema.org/draft/2020-12/schema')
  const check = new Ajv2020({ allowUnionTypes: true }).compile(schema)
  expect([check('text'), check(1), check([])]).toEqual([false, false, false])
})

it('the schema of the file of settings is the one that config schema prints', async () => {
  const { stdout } = await runCommand(['config', 'schema'], {})
  expect(read('config-file.json')).toEqual(JSON.parse(stdout))
})

describe('what a test’s command prints', () => {
  const printed = (words: readonly string[], document: object | string) => {
    const stdout = typeof document === 'string' ? document : JSON.stringify(document)
    const ended = { code: 0, signal: null, stdout, stderr: '', output: stdout, seconds: 0 }
    return () => withKnownDocument(words, ended)
  }
  const right = { url: 'http://127.0.0.1:1/', link: 'http://127.0.0.1:1/login' }

  it('passes with the form of its schema, and as an error', () => {
    expect(printed(['console', '--json'], right)).not.toThrow()
    expect(
      printed(['console', '--json'], { error: { code: 'usage', message: 'm', hint: null } }),
    ).not.toThrow()
  })

  it.each([
    ['a further key', { ...right, more: 1 }],
    ['a missing key', { url: right.url }],
    ['another type', { ...right, link: 1 }],
    ['no JSON', 'text'],
  ])('fails with %s', (_, document) => {
    expect(printed(['console', '--json'], document)).toThrow(/^console --json printed/)
  })
})
