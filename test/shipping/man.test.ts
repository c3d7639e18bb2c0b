/** man/intake-sync.1 is made from the declarations of the commands, the README's variables and the codes of exits. */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { expect, it } from 'vitest'
import { everyCommand } from '../../src/commands/program.ts'

const root = resolve(import.meta.dirname, '../..')
const path = join(root, 'man/intake-sync.1')
const readme = readFileSync(join(root, 'README.md'), 'utf8')

/** Text of roff: backslashes, hyphens, and dots and quotes that begin a line. */
const roff = (text: string) =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^([.'])/gm, '\\&$1')

/** Markdown of a cell: code is bold, a link is its text. */
const cell = (text: string) =>
  roff(text.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('\\|', '|')).replace(
    /`([^`]*)`/g,
    '\\fB$1\\fR',
  )

/** Rows of the table in README.md under the first header that matches. */
function tableUnder(header: RegExp): readonly (readonly string[])[] {
  const from = readme.search(header)
  const lines = readme.slice(from).split('\n').slice(2)
  return lines
    .slice(
      0,
      lines.findIndex((line) => !line.startsWith('|')),
    )
    .map((line) =>
      line
        .slice(2, -2)
        .split(/\s*(?<!\\)\|\s*/)
        .map((text) => text.trim()),
    )
}

function section(command: Command, above: string): string {
  const name = `${above} ${command.name()}`.trim()
  const helper = command.createHelp()
  const words = command.registeredArguments.map((each) =>
    each.required ? `<${each.name()}>` : `[${each.name()}]`,
  )
  const usage = [name, ...words, ...(command.options.length > 0 ? ['[options]'] : [])].join(' ')
  const entries = [
    ...command.registeredArguments.map((each) => [each.name(), helper.argumentDescription(each)]),
    ...command.options.map((each) => [each.flags, helper.optionDescription(each)]),
  ]
  const listed = entries.map(([term, text]) => `.TP\n.B ${roff(term!)}\n${roff(text!)}\n`).join('')
  const nested = command.commands.map((each) => section(each, name)).join('')
  const own =
    command.commands.length > 0
      ? ''
      : `.SS ${roff(usage)}\n${roff(sentence(command.description()))}\n${listed}`
  return own + nested
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.?$/, '.')}`

async function page(): Promise<string> {
  const context = { env: {}, stdout: { write: () => true }, stderr: { write: () => true } }
  const commands = await everyCommand({ ...context, signal: new AbortController().signal, version: '' })
  const variables = tableUnder(/^\| variable \| default/m).map(
    ([names, standard, meaning]) =>
      `.TP\n${cell(names!)}\n${cell(meaning!)}${standard === '' ? '' : ` (default: ${cell(standard!)})`}\n`,
  )
  const exits = tableUnder(/^\| exit code \| meaning/m).map(
    ([code, meaning]) => `.TP\n.B ${code}\n${cell(meaning!)}\n`,
  )
  return `.\\" Made from the commands' declarations: see test/shipping/man.test.ts.
.TH INTAKE\\-SYNC 1
.SH NAME
intake\\-sync \\- keeps a Postgres warehouse equal to a hosted Intake Forms Service
.SH SYNOPSIS
.B intake\\-sync
.I command
[arguments] [options]
.SH DESCRIPTION
A nightly backfill and webhooks load patients, forms and answers into tables for SQL.
Begin with
.B intake\\-sync init
and
.BR "intake\\-sync backfill" .
Every command has
.BR \\-\\-help ;
with
.B \\-\\-json
a command prints one JSON document, whose schema is in the folder schemas of the package.
.SH COMMANDS
${commands.map((command) => section(command, '')).join('')}.SH ENVIRONMENT
Each variable can also be set as NAME_FILE, the path of a file that contains the value.
${variables.join('')}.SH EXIT STATUS
${exits.join('')}.SH FILES
.TP
.B intake\\-sync.env
Settings, one NAME=value a line, in the working directory or where INTAKE_ENV_FILE says.
.TP
.B .intake\\-sync
Data of the embedded Postgres.
.SH DIAGNOSTICS
The last line of an error names its code; docs/errors.md in the package explains each.
`
}

it('the manual page names every command, option, variable and exit code as they are', async () => {
  const text = await page()
  await expect(text).toMatchFileSnapshot(path)
  for (const [names] of tableUnder(/^\| variable \| default/m)) expect(text).toContain(cell(names!))
})

it('the package installs it', () => {
  const { man, files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  expect([man, files]).toEqual(['./man/intake-sync.1', expect.arrayContaining(['man'])])
})

it('groff formats it without a warning', (context) => {
  if (spawnSync('groff', ['--version']).status !== 0) return context.skip('groff is not installed here')
  const args = ['-Kutf8', '-man', '-Tutf8', '-ww', '-z', path]
  expect(spawnSync('groff', args, { encoding: 'utf8' }).stderr).toBe('')
  const shown = String(execFileSync('groff', ['-Kutf8', '-man', '-Tascii', '-P-cbou', path]))
  expect(shown).toMatch(/^ {3}backfill \[options\]$/m)
  expect(shown).toContain('--allow-mass-delete')
})
