/** `psql` at a terminal: when it asks for more, what it runs, what psql is started with, and what a signal ends. */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { psqlCommand } from '../../../src/commands/inspect/psql.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

let warehouse: TestDatabase
let folder: string

beforeAll(async () => {
  warehouse = await openWarehouse()
  folder = makeFolder('psql-terminal-')
})
afterAll(async () => {
  removeFolder(folder)
  await warehouse.drop()
})

interface Given {
  readonly isTTY: boolean
  readonly typed?: string
  readonly env?: NodeJS.ProcessEnv
  readonly signal?: AbortSignal
}

/** Runs the command with this keyboard or standard input. */
async function psql(words: readonly string[], { isTTY, typed = '', env = {}, signal }: Given) {
  const said = { stdout: '', stderr: '' }
  const input = Object.assign(new PassThrough(), { isTTY })
  input.end(typed)
  const context = {
    env: { DATABASE_URL: warehouse.url, PATH: '/nowhere', ...env },
    stdout: { write: (text: string | Uint8Array) => (said.stdout += String(text)) },
    stderr: { write: (text: string | Uint8Array) => (said.stderr += String(text)) },
    ...{ signal: signal ?? new AbortController().signal, version: '0.0.0' },
  }
  const error: unknown = await psqlCommand(context, () => input)
    .parseAsync(words, { from: 'user' })
    .then(
      () => null,
      (failure: unknown) => failure,
    )
  return { ...said, error }
}

const HELLO = 'psql is not installed. Type SQL; a line that ends with ; runs it, Ctrl-D ends.\n'
const ONE = 'n\n1\n(1 row)\n\n'

it.each([
  ['nothing', '', '', '> '],
  ['blanks', ' \n\n', '', '> > > '],
  ['one statement', 'select 1 as n;\n', ONE, '> > '],
  ['blanks after the semicolon', 'select 1 as n; \t\n', ONE, '> > '],
  ['lines, the last without a semicolon', 'select 1\nas n', ONE, '> > > '],
  ['a statement twice', 'select 1 as n;\nselect 1 as n;\n', ONE + ONE, '> > > '],
  ['several on a line', 'select 1 as n; select 1 as n;\n', ONE + ONE, '> > '],
  ['a command of psql', '\\d;\n', '', '> error: commands that begin with \\ need psql\n> '],
  ['a failure, then more', 'selec;\nselect 1 as n;\n', ONE, '> error: syntax error at or near "selec"\n> > '],
])('a terminal on which %s is typed', async (_, typed, stdout, stderr) => {
  expect(await psql([], { isTTY: true, typed })).toEqual({ stdout, stderr: HELLO + stderr, error: null })
})

it('standard input that is no terminal is asked for nothing, and may be empty', async () => {
  for (const words of [[], ['--json']]) {
    const [shown, none] = words.length === 0 ? [ONE, ''] : ['"rows"', '{\n  "results": []\n}\n']
    const some = await psql(words, { isTTY: false, typed: 'select 1\nas n' })
    expect(some).toEqual({ stdout: expect.stringContaining(shown), stderr: '', error: null })
    expect(await psql(words, { isTTY: false, typed: ' \n' })).toEqual({
      stdout: none,
      stderr: '',
      error: null,
    })
  }
})

it.each(['SIGINT', 'SIGTERM'])('%s ends a statement that runs', async (reason) => {
  const stop = new AbortController()
  const words = ['-c', `select 'of ${reason}', pg_sleep(60)`]
  const ended = psql(words, { isTTY: true, signal: stop.signal })
  const running = () =>
    query(
      warehouse.url,
      `select from pg_stat_activity where query like $1 and datname = current_database()`,
      [`select 'of ${reason}'%`],
    )
  await expect.poll(running).toHaveLength(1)
  stop.abort(reason)
  expect(await ended).toEqual({ stdout: '', stderr: '', error: reason })
})

it('after a signal between two statements the second is not begun', async () => {
  const stop = new AbortController()
  const said: string[] = []
  const words = ['-c', 'select 1 as n', '-c', 'create table intake.second_statement ()']
  const output = {
    write: (text: string | Uint8Array) => {
      said.push(String(text))
      stop.abort('SIGTERM')
    },
  }
  const context = {
    ...{ env: { DATABASE_URL: warehouse.url, PATH: '/nowhere' }, stdout: output, stderr: output },
    ...{ signal: stop.signal, version: '0.0.0' },
  }
  await expect(psqlCommand(context).parseAsync(words, { from: 'user' })).rejects.toBe('SIGTERM')
  expect(said).toEqual([ONE])
  const made = `select from pg_tables where tablename = 'second_statement'`
  expect(await query(warehouse.url, made)).toEqual([])
})

it('at a terminal a lost connection is an error of each statement that was begun, and then of the command', async () => {
  const typed = 'select pg_terminate_backend(pg_backend_pid());\nselect 1 as n;\nselect 2 as n;\n'
  const { stdout, stderr, error } = await psql([], { isTTY: true, typed })
  expect([stdout, stderr]).toEqual([
    '',
    `${HELLO}> error: terminating connection due to administrator command\n> `,
  ])
  expect(error).toMatchObject({ code: 'warehouse_unreachable', verdict: 'retry' })
})

/** In place of psql: writes down how it was called. */
const standIn = (mode = 0o755) => {
  const [path, said] = [join(folder, 'psql'), join(folder, 'said')]
  writeFileSync(path, `#!/bin/sh\nprintf '%s\\n' "$PGAPPNAME" "$PGOPTIONS" "$PGUSER" "$@" >'${said}'\n`)
  chmodSync(path, mode)
  return () => readFileSync(said, 'utf8').trimEnd().split('\n')
}

it.each([
  ['at a terminal', [], true, false, []],
  ['off a terminal', [], false, true, []],
  [
    'for --command at a terminal',
    ['-c', 'select 1', '-c', 'select 2'],
    true,
    true,
    ['-c', 'select 1', '-c', 'select 2'],
  ],
  ['with arguments of its own at a terminal', ['--', '-A', '-t'], true, false, ['-A', '-t']],
])('psql %s is started with the options and names of both', async (_, words, isTTY, stops, own) => {
  const said = standIn()
  const ofCommand = () => {}
  process.on('SIGINT', ofCommand)
  const listeners = process.listeners('SIGINT')
  const url = new URL(warehouse.url)
  url.searchParams.set('options', '-c work_mem=5MB')
  const path = `${folder}:/bin:/usr/bin`
  const env = { DATABASE_URL: url.href, PATH: path, PGOPTIONS: '-c work_mem=7MB', PGUSER: 'kept' }
  expect(await psql(words, { isTTY, env })).toEqual({ stdout: '', stderr: '', error: null })
  const [name, options, user, ...args] = said()
  expect([name, options, user]).toEqual([
    // The last one counts: what the user sets over what the connection has, and both below what the command needs.
    ...['intake-sync psql', '-c work_mem=5MB -c work_mem=7MB -c search_path=intake,public', 'kept'],
  ])
  expect(args.slice(0, -2)).toEqual([...(stops ? ['-v', 'ON_ERROR_STOP=1'] : []), ...own])
  expect(args.at(-2)).toBe('-d')
  // Ctrl-C is the command's again.
  expect(process.listeners('SIGINT')).toEqual(listeners)
  process.off('SIGINT', ofCommand)
})

it('a psql that may not be executed is none: the own client runs the SQL', async () => {
  standIn(0o644)
  const env = { PATH: folder }
  expect(await psql(['-c', 'select 1 as n'], { isTTY: true, env })).toEqual({
    stdout: ONE,
    stderr: '',
    error: null,
  })
})
