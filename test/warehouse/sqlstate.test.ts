/** A failure of the warehouse has a verdict and a hint, and names a table at most. See also test/core/errors.test.ts. */
import { expect, test } from 'vitest'
import { sqlstateOf, warehouseError } from '../../src/warehouse/sqlstate.ts'

const failing = (code: unknown, message = 'of the server', more: object = {}) =>
  Object.assign(new Error(message), { code, ...more })

test.each([
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH'],
  ...['08000', '08003', '08006', '08P01'],
])('%s is a lost connection, and retried', (code) => {
  expect(warehouseError(failing(code))).toMatchObject({ code: 'warehouse_unreachable', verdict: 'retry' })
})

test.each([
  'Connection terminated unexpectedly',
  'timeout expired',
  'Connection terminated due to connection timeout',
  'Query read timeout',
  'Client has encountered a connection error and is not queryable',
])('%j without a code is a lost connection, and with one it is what the code says', (message) => {
  expect(warehouseError(new Error(message))).toMatchObject({ code: 'warehouse_unreachable' })
  expect(warehouseError(failing('ERR_OTHER', message))).toMatchObject({ code: 'internal' })
})

test.each([
  ['57014', 'canceled', 'retry'],
  ['IT001', 'team_removed', 'stop'],
])('%s is %s: %s', (state, code, verdict) => {
  expect(warehouseError(failing(state))).toMatchObject({ code, verdict, cause: expect.any(Error) })
})

test('a table is named, also where the state is unknown; nothing else of the failure is', () => {
  const more = { table: 'patients', detail: 'Jane', column: 'last_name' }
  expect(warehouseError(failing('40P01', 'Jane', more)).message).toMatch(/each other \(patients\)$/)
  expect(warehouseError(failing('40P01', 'Jane', { detail: 'Jane' })).message).toMatch(/each other$/)
  expect(warehouseError(failing('22P02', 'Jane', more))).toMatchObject({
    ...{ code: 'warehouse', verdict: 'stop' },
    message: 'the warehouse answered with an error (SQLSTATE 22P02) at table patients',
  })
  expect(warehouseError(failing('22P02')).message).toMatch(/\(SQLSTATE 22P02\)$/)
})

test('sessions that have a lock are named only by our own function, which knows no row', () => {
  const detail = 'session 7 (intake-sync one, login x)'
  expect(warehouseError(failing('55P03', 'a lock is taken', { detail })).message).toMatch(
    /: session 7 \(.*\)$/,
  )
  expect(warehouseError(failing('55P03', 'other', { detail })).message).not.toContain('session 7')
  expect(warehouseError(failing('55P03', 'a lock is taken', { detail: 7 })).message).toMatch(
    /another session$/,
  )
})

test.each([
  'CERT_HAS_EXPIRED',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'ERR_SSL_WRONG_VERSION',
  'ERR_OSSL_X',
  'EPROTO',
])('%s is a certificate that cannot be verified: no attempt helps', (code) => {
  const error = warehouseError(failing(code))
  expect(error).toMatchObject({ code: 'warehouse_tls', verdict: 'stop' })
  expect(error.message).toContain(`(${code})`)
})

test.each(['EPROTOTYPE', 'X_ERR_TLS', 'EACCES', 'abcde', '123456', '1234', 7])(
  '%j is no answer of the warehouse, but a defect with its place',
  (code) => {
    const error = warehouseError(failing(code))
    expect(error).toMatchObject({ code: 'internal', verdict: 'stop' })
    expect(error.message).toMatch(/^unexpected Error at sqlstate\.test\.ts:\d+$/)
  },
)

test('a message that looks like a stack is not taken for one', () => {
  const error = new TypeError('of a patient\n    at home with Jane (jane.ts:1:2)')
  expect(warehouseError(error).message).toMatch(/^unexpected TypeError at sqlstate\.test\.ts:\d+$/)
})

test('each known state has its message, and a hint that says what to do about it', () => {
  const states = ['55P03', 'IT001', '42P01', '40P01', '40001', '42501', '28P01', '28000', '3D000', '53300']
  states.push('53100', '57P01', '57P02', '57P03', '57014', '25006', 'ECONNRESET', 'EPROTO')
  const errors = states.map((state) => warehouseError(failing(state)))
  errors.push(warehouseError(new Error('The server does not support SSL connections')))
  errors.push(warehouseError(failing(undefined)))
  const said = errors.map(({ message, hint }) => `${message.replace(/:\d+$/, '')} → ${hint}`)
  expect(said.join('\n')).toMatchInlineSnapshot(`
    "a table of the warehouse is locked by another session → end or wait for the session that holds it (pg_locks, pg_stat_activity), then run again
    the team was removed from this warehouse → remove it from the configuration; to restore it instead, run a backfill or restart serve with it in the configuration
    the tables of the warehouse are not those of this version: it was migrated by a newer one, or changed by hand → start the newer version of intake-sync, or restore the backup that was made before the upgrade; nothing that waits is lost
    two sessions of the warehouse waited for each other → run again
    the warehouse could not serialise a transaction → run again
    the warehouse login lacks a privilege → connect as the owner of the intake schemas, or grant it intake_loader
    the warehouse refused the login → check user and password in DATABASE_URL
    the warehouse refused the login → check user and database in DATABASE_URL, and pg_hba.conf
    the warehouse database does not exist → create it, or correct DATABASE_URL
    the warehouse has no connection left → raise max_connections, or end other sessions
    the disk of the warehouse is full → free space, then run again
    the warehouse was shut down → start it, then run again
    the warehouse is recovering from a crash → run again
    the warehouse is starting up or shutting down → run again in a moment
    a statement of ours was canceled in the warehouse → find out who cancels statements there (pg_cancel_backend, statement_timeout, a pooler’s limit), then run again
    the warehouse is read-only → point DATABASE_URL at the primary server
    cannot reach the warehouse, or lost the connection to it → check that Postgres runs where DATABASE_URL says, then run again
    the certificate of the warehouse cannot be verified (EPROTO) → use the host name of the certificate in DATABASE_URL; sslrootcert=FILE names an authority of your own
    the warehouse does not offer TLS, and DATABASE_URL asks for it → turn TLS on at the server (ssl = on); within one machine, leave sslmode out of DATABASE_URL
    unexpected Error at sqlstate.test.ts → this is a fault of intake-sync: report it with this line"
  `)
})

test('a state is the text of a code', () => {
  expect([failing('42P01'), failing(7), {}, null, undefined, 'x'].map(sqlstateOf)).toEqual([
    ...['42P01', undefined, undefined, undefined, undefined, undefined],
  ])
})
