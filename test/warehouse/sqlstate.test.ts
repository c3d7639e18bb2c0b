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

test('a state is the text of a code', () => {
  expect([failing('42P01'), failing(7), {}, null, undefined, 'x'].map(sqlstateOf)).toEqual([
    ...['42P01', undefined, undefined, undefined, undefined, undefined],
  ])
})
