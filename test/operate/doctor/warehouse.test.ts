/** How the warehouse is reached: a connection that others could read, or answer, is a warning. */
import { expect, test } from 'vitest'
import { judgeTransport } from '../../../src/operate/doctor/warehouse.ts'

test.each([
  ['ok', { tls: 'TLSv1.3', isLocal: false }, true],
  ['ok', { tls: null, isLocal: true }, false],
  ['warning', { tls: 'TLSv1.3', isLocal: false }, false],
  ['warning', { tls: null, isLocal: false }, false],
  ['warning', { tls: null, isLocal: false }, true],
] as const)('%s: %j, verified %j', (status, transport, isVerified) => {
  expect(judgeTransport(transport, isVerified)).toMatchObject({ name: 'database transport', status })
})
