/** Each code of an error is raised by a test, explained in docs/errors.md, and printed with its place there. */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Client } from '../../src/api/client.ts'
import { getById } from '../../src/api/resources/resource.ts'
import type { Context } from '../../src/commands/context.ts'
import { runProgram } from '../../src/commands/program.ts'
import { takeRole } from '../../src/commands/reader.ts'
import { ERROR_GROUPS } from '../../src/core/error-codes.ts'
import { findPackage } from '../../src/embedded/package.ts'
import { withLock } from '../../src/embedded/process-identity.ts'
import { notStarted } from '../../src/embedded/supervise.ts'
import { recordsOf } from '../../src/reconcile/expected-from-raw.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { warehouseError } from '../../src/warehouse/sqlstate.ts'
import { query } from '../e2e/support/scene.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runCommand } from '../support/run-command.ts'

const root = resolve(import.meta.dirname, '../..')
const codes = Object.values(ERROR_GROUPS).flatMap((group) => Object.keys(group))
const folder = makeFolder('codes-')
let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await createTestDatabase()
  await query(warehouse.url, `insert into intake.teams (name) values ('default')`)
})
afterAll(async () => {
  removeFolder(folder)
  await warehouse.drop()
})

/** A page of Markdown that explains each code. `npx vitest run test/core/error-codes.test.ts -u` writes it. */
function explained(): string {
  const sections = Object.entries(ERROR_GROUPS).map(([title, group]) => {
    const entries = Object.entries<string>(group).map(([code, text]) => {
      const [means, todo] = text.split(' → ')
      return `### ${code}\n\n${means}\n\n**What to do.** ${todo}\n`
    })
    return `## ${title}\n\n${entries.join('\n')}`
  })
  return `# Errors

Every error of a command has a code. The last line of its message names the code and its section here; with \`--json\`,
\`error.code\` and \`error.docs\` do. Codes are stable: a script may compare them. The message says what happened, the hint
what to do; a section explains what the code stands for. No message shows a value of a record or a secret.

<!-- Made from src/core/error-codes.ts: see test/core/error-codes.test.ts. -->

${sections.join('\n')}`
}

it('docs/errors.md has a section for each code, made from the declaration', async () => {
  await expect(explained()).toMatchFileSnapshot(join(root, 'docs/errors.md'))
  for (const group of Object.values(ERROR_GROUPS)) {
    for (const [code, text] of Object.entries<string>(group)) {
      expect([code, text.split(' → ').length]).toEqual([code, 2])
    }
  }
})

it('each code is expected by a test that raises it', () => {
  const own = fileURLToPath(import.meta.url)
  const tests = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => readFileSync(join(root, 'test', name), 'utf8'))
    .join('\n')
  expect(tests).toContain(readFileSync(own, 'utf8'))
  // An error that a test makes itself is not raised.
  const lines = tests.replaceAll(/.*new (?:Intake|Usage|Api)Error\(.*/g, '')
  // On a line that names it a code; as the line that commands print; in a table, first or after a status or SQLSTATE.
  const isExpected = (code: string) =>
    new RegExp(
      `code\\b.*['"\`(|]${code}['"\`)|]|code: ${code}\\b|\\[\\s*(?:(?:\\d{3}|status|'[\\dA-Z]{5}'), )?'${code}',`,
    ).test(lines)
  expect(codes.filter((code) => !isExpected(code))).toEqual([])
  expect(isExpected(['no', 'such', 'code'].join('_'))).toBe(false)
})

describe('is raised', () => {
  const file = (name: string, text: string) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return path
  }
  const service = {
    INTAKE_BASE_URL: 'http://127.0.0.1:1',
    INTAKE_API_KEY: 'key',
    INTAKE_API_SECRET: 'secret',
  }

  it.each([
    ['usage', ['backfill', '--bogus'], {}],
    ['confirmation_missing', ['teams', 'remove', 'north'], {}],
    ['data_dir_unusable', ['migrate'], { INTAKE_DATA_DIR: join(file('no-folder', ''), 'data') }],
    ['definition_invalid', ['patients', 'upload', file('x.csv', 'a,b\n1,2\n')], service],
    ['file_unreadable', ['patients', 'upload', join(folder, 'nowhere.csv')], service],
    ['no_warehouse', ['runs'], { INTAKE_DATA_DIR: join(folder, 'nothing') }],
    ['setting_invalid', ['status'], { INTAKE_CRON: 'never' }],
    ['setting_missing', ['backfill'], {}],
    ['unknown_stream', ['backfill', '--streams', 'nonsense'], service],
    ['unknown_team', ['backfill', '--team', 'nobody'], service],
    ['unreachable', ['api', 'GET', '/v2/forms'], service],
    ['warehouse_unreachable', ['status'], { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' }],
  ])('%s by a command, which prints where it is explained', async (code, words, env) => {
    const run = await runCommand([...words, '--json'], { ...env })
    expect(run.stderr).toContain(`code: ${code}, see docs/errors.md#${code}\n`)
    const { error } = JSON.parse(run.stdout)
    expect(error.code).toBe(code)
    const [path, anchor] = error.docs.split('#')
    expect(readFileSync(fileURLToPath(path), 'utf8')).toContain(`\n### ${anchor}\n`)
  })

  it('on a terminal the place is a link to the file', async () => {
    const said: string[] = []
    const code = await runProgram(['backfill', '--bogus'], {
      env: {},
      stdout: { write: () => true },
      stderr: { write: (text) => said.push(String(text)), isTTY: true, columns: 80 },
      signal: new AbortController().signal,
      version: '0.0.0',
    })
    expect(code).toBe(2)
    const link = /see \u001b\]8;;(file:.*)#usage\u001b\\docs\/errors\.md#usage\u001b\]8;;\u001b\\\n$/.exec(
      said.join(''),
    )
    expect(fileURLToPath(link![1]!)).toBe(join(root, 'docs/errors.md'))
  })

  it.each([
    ['embedded_unavailable', () => findPackage('sunos', 'mips')],
    [
      'embedded_not_started',
      () => Promise.reject(notStarted({ directory: folder, cluster: folder, user: undefined })),
    ],
    ['embedded_busy', () => twice(mkdtempSync(join(folder, 'lock-')))],
    ['team_removed', () => Promise.reject(warehouseError(Object.assign(new Error(), { code: 'IT001' })))],
    ['record_unreadable', () => getById(answering([]), 'patient', z.unknown(), 'p')],
    ['role_missing', () => takeRole({} as Context, withoutRoles(), 'researcher')],
    ['payload_missing', () => withoutPayload()],
  ])('%s by its part', async (code, action) => {
    await expect((async () => action())()).rejects.toMatchObject({ code })
  })

  const answering = (body: unknown) =>
    ({ paths: { patient: '/v2/patients/{id}' }, get: async () => ({ body }) }) as unknown as Client

  /** Roles belong to the server, which other tests use. */
  const withoutRoles = () => ({ client: { query: async () => ({ rows: [] }) } }) as unknown as Session

  it('not_reached by waiting for what is not there', async () => {
    const words = ['wait', 'patients', 'nobody', '--timeout', '0']
    const { code, stderr } = await runCommand(words, { DATABASE_URL: warehouse.url })
    expect([code, stderr]).toEqual([1, expect.stringContaining('\ncode: not_reached, see ')])
  })

  const twice = (place: string) =>
    withLock(join(place, 'lock'), 60_000, () => withLock(join(place, 'lock'), 1, async () => {}))

  async function withoutPayload(): Promise<unknown> {
    await using session = await openSession({ url: warehouse.url, purpose: 'test' })
    await session.client.query(
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, deleted)
       values (1, 'patients', 'p', now(), now(), '', 'page', false)`,
    )
    return await recordsOf(session, { teamId: 1, stream: 'patients' }, ['p'])
  }
})
