/** A connection that others could read, or answer, is a warning; so is a server of another version than the tested ones. */
import { expect, inject, test } from 'vitest'
import {
  checkWarehouse,
  judgeServer,
  judgeTransport,
  verifiesServer,
} from '../../../src/operate/doctor/warehouse.ts'
import { createTestDatabase } from '../../support/database.ts'
import { ask } from '../../support/sessions.ts'

test.each([
  ['ok', { tls: 'TLSv1.3', isLocal: false }, true, 'TLSv1.3, and the server is verified'],
  ['ok', { tls: null, isLocal: true }, false, 'within this machine'],
  ['warning', { tls: 'TLSv1.3', isLocal: false }, false, 'TLSv1.3, but the server is not verified'],
  ['warning', { tls: null, isLocal: false }, false, 'not encrypted'],
  ['warning', { tls: null, isLocal: false }, true, 'not encrypted'],
] as const)('%s: %j, verified %j', (status, transport, isVerified, detail) => {
  expect(judgeTransport(transport, isVerified)).toMatchObject({ name: 'database transport', status, detail })
})

test.each([
  [14, 'failed', 'Postgres 14.9 is older than 15'],
  [15, 'ok', 'Postgres 15.9'],
  [18, 'ok', 'Postgres 18.9'],
  [19, 'warning', 'Postgres 19.9 is newer than the tested versions'],
])('Postgres %d: %s', (version, status, detail) => {
  expect(judgeServer(version, `${version}.9`)).toMatchObject({ name: 'database', status, detail })
})

test.each([
  ['?sslmode=verify-full', true],
  ['?application_name=x&sslmode=verify-ca&options=y', true],
  ['?sslmode=verify-fully', false],
  ['?sslmode=require', false],
  ['?other_sslmode=verify-full', false],
  ['', false],
])('a connection with %j verifies the server: %s', (parameters, isVerified) => {
  expect(verifiesServer(`postgres://host/name${parameters}`)).toBe(isVerified)
})

test('a login that lacks one privilege on one table of any schema is found out', async () => {
  await using database = await createTestDatabase()
  const login = `${inject('testServer').prefix}lacking`
  const run = (text: string) => ask(database.url, text)
  const own = new URL(database.url)
  Object.assign(own, { username: login, password: 'x' })
  const check = async () => {
    const { checks, session } = await checkWarehouse(own.href)
    await session?.close()
    return checks.find(({ name }) => name === 'database privileges')?.detail
  }
  const schemas = 'schema intake, intake_raw, intake_ops'
  await run(`create role ${login} login password 'x'`)
  try {
    await run(`grant usage on ${schemas} to ${login}`)
    await run(`grant select, insert, update, delete on all tables in ${schemas} to ${login}`)
    expect(await check()).toBe('this login may write every table')
    for (const lacking of [
      'select on intake.forms',
      'insert on intake_raw.records',
      'update on intake_ops.runs',
      'delete on intake.patients',
    ]) {
      await run(`revoke ${lacking} from ${login}`)
      expect([lacking, await check()]).toEqual([
        lacking,
        'this login may not write 1 of the tables or schemas of intake-sync',
      ])
      await run(`grant ${lacking} to ${login}`)
    }
  } finally {
    await run(`drop owned by ${login}`)
    await run(`drop role ${login}`)
  }
})
