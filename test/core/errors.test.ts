/** Every failure has a verdict, and its message is safe to log. */
import { describe, expect, test } from 'vitest'
import { IntakeError, UsageError, type Verdict, verdictOf } from '../../src/core/errors.ts'
import { warehouseError } from '../../src/warehouse/sqlstate.ts'

test('an error carries its verdict, code, hint and cause', () => {
  const cause = new Error('inner')
  const error = new IntakeError('said', { code: 'erased', verdict: 'retry', hint: 'do this', cause })
  expect(error).toMatchObject({
    name: 'IntakeError',
    message: 'said',
    code: 'erased',
    verdict: 'retry',
    hint: 'do this',
    cause,
  })
  expect(error).toBeInstanceOf(Error)
  expect('cause' in new IntakeError('said', { code: 'erased', verdict: 'stop' })).toBe(false)
})

test('wrong usage stops, and names the argument', () => {
  const error = new UsageError('wrong', 'write it so', 'INTAKE_TEAM')
  expect(error).toMatchObject({
    name: 'UsageError',
    code: 'setting_invalid',
    verdict: 'stop',
    hint: 'write it so',
    variable: 'INTAKE_TEAM',
  })
  expect(error).toBeInstanceOf(IntakeError)
  expect(new UsageError('wrong')).toMatchObject({ hint: undefined, variable: undefined })
})

test.each([
  ...['INTAKE_CRON', 'DATABASE_URL', 'LOG_LEVEL', 'paths', 'paths.patients', 'bodyKeys', 'teams[0].name'].map(
    (variable) => [variable, 'setting_invalid'] as const,
  ),
  ...['--team', 'STREAM', 'MY_INTAKE_CRON', 'DATABASE', undefined].map(
    (variable) => [variable, 'usage'] as const,
  ),
])('what %s names is wrong as %s', (variable, code) => {
  expect(new UsageError('wrong', undefined, variable).code).toBe(code)
  expect(new UsageError('wrong', undefined, variable, 'unknown_team').code).toBe('unknown_team')
})

test.each<[unknown, Verdict]>([
  [new IntakeError('x', { code: 'sql', verdict: 'gone' }), 'gone'],
  [new IntakeError('x', { code: 'sql', verdict: 'dead_letter' }), 'dead_letter'],
  [new UsageError('x'), 'stop'],
  [new TypeError('x'), 'stop'],
  ['text', 'stop'],
  [undefined, 'stop'],
  [{ verdict: 'retry' }, 'stop'],
])('the verdict of %s is %s', (error, verdict) => {
  expect(verdictOf(error)).toBe(verdict)
})

describe('a failure of the warehouse', () => {
  const VALUE = 'Jane Doe 555-0100'
  const failing = (code: string | undefined, more = {}) =>
    Object.assign(new Error(`duplicate key "${VALUE}"`), {
      code,
      detail: `Key (id)=(${VALUE})`,
      where: VALUE,
      ...more,
    })

  test.each<[string | undefined, string, Verdict]>([
    ['55P03', 'table_locked', 'retry'],
    ['40P01', 'deadlock', 'retry'],
    ['40001', 'serialization', 'retry'],
    ['53300', 'connections', 'retry'],
    ['57P01', 'shutdown', 'retry'],
    ['57P02', 'shutdown', 'retry'],
    ['57P03', 'starting', 'retry'],
    ['08006', 'warehouse_unreachable', 'retry'],
    ['ECONNREFUSED', 'warehouse_unreachable', 'retry'],
    ['ECONNRESET', 'warehouse_unreachable', 'retry'],
    ['42501', 'privilege', 'stop'],
    ['28P01', 'login', 'stop'],
    ['28000', 'login', 'stop'],
    ['3D000', 'no_database', 'stop'],
    ['53100', 'disk_full', 'stop'],
    ['25006', 'read_only', 'stop'],
    ['42P01', 'other_schema', 'stop'],
    ['42703', 'other_schema', 'stop'],
    ['42883', 'other_schema', 'stop'],
    ['23505', 'warehouse', 'stop'],
    ['ERR_SOMETHING', 'internal', 'stop'],
    [undefined, 'internal', 'stop'],
  ])('%s is %s: %s, and contains no value', (state, code, verdict) => {
    const error = warehouseError(failing(state, { table: 'patients' }))
    expect(error).toMatchObject({ code, verdict })
    expect(`${error.message} ${error.hint}`).not.toContain('Jane')
    expect(`${error.message} ${error.hint}`).not.toContain('0100')
  })

  test('a lost connection is retried', () => {
    expect(warehouseError(new Error('Connection terminated unexpectedly'))).toMatchObject({
      verdict: 'retry',
    })
    expect(warehouseError(new Error('timeout expired'))).toMatchObject({ verdict: 'retry' })
  })

  test.each([
    ['no TLS at the server', new Error('The server does not support SSL connections'), /does not offer TLS/],
    ['a certificate of an unknown authority', failing('SELF_SIGNED_CERT_IN_CHAIN'), /cannot be verified/],
    ['a certificate of another host', failing('ERR_TLS_CERT_ALTNAME_INVALID'), /cannot be verified/],
  ])('%s stops, and the hint names DATABASE_URL', (_, error, says) => {
    const known = warehouseError(error)
    expect(known).toMatchObject({ code: 'warehouse_tls', verdict: 'stop' })
    expect(known.message).toMatch(says)
    expect(known.hint).toContain('DATABASE_URL')
    expect(known.message).not.toContain('Jane')
  })

  test('our own errors pass unchanged', () => {
    const own = new IntakeError('x', { code: 'slice_lost', verdict: 'stop' })
    expect(warehouseError(own)).toBe(own)
  })

  test.each([null, undefined, 'text', 7, {}])('a thrown %j is a defect of our own', (thrown) => {
    expect(warehouseError(thrown)).toMatchObject({ code: 'internal', verdict: 'stop' })
  })
})
