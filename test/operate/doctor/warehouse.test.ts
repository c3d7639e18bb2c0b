/** A connection that others could read, or answer, is a warning; so is a server of another version than the tested ones. */
import { expect, test } from 'vitest'
import { judgeServer, judgeTransport, verifiesServer } from '../../../src/operate/doctor/warehouse.ts'

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
