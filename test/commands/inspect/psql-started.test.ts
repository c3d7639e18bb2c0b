/** What psql is started with, and how it can end, without a warehouse. */
import { spawn } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { requireMigrated } from '../../../src/analytics/migrate.ts'
import { placeOf, psqlCommand } from '../../../src/commands/inspect/psql.ts'
import type { ErrorCode } from '../../../src/core/error-codes.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

vi.mock('node:child_process', async (original) => {
  const own = await original<typeof import('node:child_process')>()
  return { ...own, spawn: vi.fn(own.spawn) }
})
vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: vi.fn(),
}))

const folder = makeFolder('psql-started-')
afterAll(() => removeFolder(folder))
beforeEach(() => {
  vi.mocked(requireMigrated).mockResolvedValue(undefined)
})

/** In place of psql. */
const psqlIs = (script: string) => {
  writeFileSync(join(folder, 'psql'), `#!/bin/sh\n${script}\n`)
  chmodSync(join(folder, 'psql'), 0o755)
}

async function psql(words: readonly string[], signal = new AbortController().signal): Promise<unknown> {
  const output = { write: () => true }
  const env = { DATABASE_URL: 'postgres://u@127.0.0.1:1/d', PATH: `${folder}:/bin:/usr/bin` }
  const keyboard = Object.assign(new PassThrough(), { isTTY: true })
  return await psqlCommand({ env, stdout: output, stderr: output, signal, version: '' }, () => keyboard)
    .parseAsync(words, { from: 'user' })
    .then(
      () => null,
      (error: unknown) => error,
    )
}

it.each([
  ['exit 0', null],
  ['exit 1', { exitCode: 1 }],
  ['exit 3', { exitCode: 1 }],
  ['kill -KILL $$', { exitCode: 1 }],
])('after "%s" of psql the command ends with %j', async (script, error) => {
  psqlIs(script)
  const listeners = process.listeners('SIGINT')
  expect(await psql([])).toEqual(error === null ? null : expect.objectContaining(error))
  expect(process.listeners('SIGINT')).toEqual(listeners)
})

it.each(['EMFILE', 'EAGAIN'])(
  'a psql that cannot be started for %s is a failure, and not taken for missing',
  async (code) => {
    vi.mocked(spawn).mockImplementationOnce(() => {
      const child = new EventEmitter()
      setImmediate(() => child.emit('error', Object.assign(new Error('x'), { code })))
      return child as never
    })
    const listeners = process.listeners('SIGINT')
    expect(await psql([])).toMatchObject({ code })
    expect(process.listeners('SIGINT')).toEqual(listeners)
  },
)

it('arguments that are too long for a process are a failure of its own, not one of psql', async () => {
  psqlIs('exit 0')
  const listeners = process.listeners('SIGINT')
  expect(await psql(['--', 'x'.repeat(4_000_000)])).toMatchObject({ code: 'E2BIG' })
  expect(process.listeners('SIGINT')).toEqual(listeners)
})

it.each(['SIGINT', 'SIGTERM'])(
  'a command that %s ends has its reason, whatever psql ended with',
  async (reason) => {
    const runs = join(folder, 'runs')
    for (const [begin, rest] of [
      ['trap "exit 0" TERM', 'while :; do sleep 0.01; done'],
      [':', 'exec sleep 60'],
    ] as const) {
      psqlIs(`${begin}; : > '${runs}'; ${rest}`)
      const stop = new AbortController()
      const ended = psql([], stop.signal)
      // Earlier, the signal would end the shell before it has set its trap.
      await expect.poll(() => existsSync(runs)).toBe(true)
      stop.abort(reason)
      expect(await ended).toBe(reason)
      rmSync(runs)
    }
  },
)

it('a login that may not see the migrations may read all the same; in a warehouse that is behind nothing is started', async () => {
  psqlIs('exit 0')
  for (const [code, error] of [
    ['privilege', null],
    ['database_behind', 'database_behind'],
    ['database_ahead', 'database_ahead'],
    ['warehouse_unreachable', 'warehouse_unreachable'],
  ] as const satisfies readonly (readonly [ErrorCode, unknown])[]) {
    vi.mocked(requireMigrated).mockRejectedValueOnce(new IntakeError('no', { code, verdict: 'stop' }))
    const ended = (await psql([])) as IntakeError | null
    expect([code, ended?.code ?? null]).toEqual([code, error])
  }
})

const KNOWN = [
  ...['host', 'hostaddr', 'port', 'dbname', 'user', 'passfile', 'connect_timeout', 'client_encoding'],
  ...['keepalives', 'keepalives_idle', 'keepalives_interval', 'keepalives_count', 'tcp_user_timeout'],
  ...['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslcrl', 'sslnegotiation', 'target_session_attrs'],
  ...['channel_binding', 'gssencmode', 'gsslib', 'require_auth'],
]
const OF_THE_LIBRARY = [
  'ssl',
  'max',
  'application_name',
  'uselibpqcompat',
  'statement_timeout',
  'xhost',
  'hosts',
]

it.each(KNOWN)('psql has the parameter %s of the connection', (name) => {
  expect(placeOf(`postgres://u@h/d?${name}=a%20b`)).toEqual({
    ...{ url: `postgres://u@h/d?${name}=a%20b`, password: null, options: '' },
  })
})

it.each(OF_THE_LIBRARY)('psql does not have the parameter %s, which it would refuse', (name) => {
  expect(placeOf(`postgres://u@h/d?port=5&${name}=1&user=v`).url).toBe('postgres://u@h/d?port=5&user=v')
  expect(placeOf(`postgres://u@h/d?${name}=1`).url).toBe('postgres://u@h/d')
})

it.each([
  ['postgres://h/d?ssl=false', 'postgres://h/d', null, ''],
  ['postgres://h/d?ssl=true', 'postgres://h/d?sslmode=require', null, ''],
  ['postgres://h/d?ssl=true&sslmode=disable', 'postgres://h/d?sslmode=disable', null, ''],
  ['postgres://h/d?options=-c%20a=1&options=-c%20b=2', 'postgres://h/d', null, '-c a=1 -c b=2'],
  ['postgres://u:of-user@h/d?password=of-query', 'postgres://u@h/d', 'of-query', ''],
  ['postgres://u:@h/d', 'postgres://u@h/d', '', ''],
  ['postgres://u%40x:p%3Aq%25@h:5/d', 'postgres://u%40x@h:5/d', 'p:q%', ''],
  ['postgres://h', 'postgres://h', null, ''],
  ['postgres://u@[::1]:5/d', 'postgres://u@[::1]:5/d', null, ''],
  ['postgres://u:p@/d?host=/run&user=v', 'postgres://u@/d?host=%2Frun&user=v', 'p', ''],
])('%s is for psql %s, with the password %j and the options "%s"', (given, url, password, options) => {
  expect(placeOf(given)).toEqual({ url, password, options })
})
