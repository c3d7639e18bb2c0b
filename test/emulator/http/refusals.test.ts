/** Refusals to the byte: a request that is not HTTP, a method that a path does not have, and several unknown parameters. */
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf } from '../caller.ts'
import { stillClock } from '../still-clock.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  const shape = 'unknown-parameter-refused+validation-errors-object'
  emulator = await startEmulator({ port: 0, patients: 1, clock: stillClock, shape })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

it.each([
  ['nonsense\r\n\r\n', '400 Bad Request', 'Validation error.'],
  [
    `GET / HTTP/1.1\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`,
    '431 Request Header Fields Too Large',
    'Request Header Fields Too Large.',
  ],
])(
  'a request that cannot be read has one complete answer, and ends its connection: %#',
  async (sent, status, detail) => {
    for (const { name, base_url } of emulator.environments) {
      const { hostname, port } = new URL(base_url)
      const socket = connect(Number(port), hostname)
      socket.write(sent)
      const body = JSON.stringify({ detail })
      const date = new Date(stillClock.now() / 1000).toUTCString()
      expect(await text(socket)).toBe(
        [
          ...[`HTTP/1.1 ${status}`, `X-Service-Environment: ${name}`, `Date: ${date}`],
          ...[
            'Content-Type: application/json',
            `Content-Length: ${body.length}`,
            'Connection: close',
            '',
            body,
          ],
        ].join('\r\n'),
      )
    }
  },
)

it.each([
  ['/v2/patients', 'PUT', 'GET, POST'],
  ['/v2/patients/x', 'POST', 'GET, PUT, PATCH, DELETE'],
  ['/v2/patients/batch-upload', 'GET', 'POST'],
  ['/v2/patients/batch-upload/x', 'DELETE', 'GET'],
  ['/v2/packets/x', 'PATCH', 'GET'],
  ['/v2/messages', 'DELETE', 'GET, POST'],
  ['/v2/messages/x', 'PATCH', 'GET, PUT, DELETE'],
  ['/v2/messages/x/scheduled', 'GET', 'PATCH'],
  ['/v2/responses/x', 'DELETE', 'GET'],
  ['/v2/webhooks', 'PATCH', 'GET, POST'],
  ['/v2/webhooks/x', 'POST', 'GET, PUT, PATCH, DELETE'],
  ['/v2/webhooks/events', 'POST', 'GET'],
  ['/v2/webhooks/events/test', 'GET', 'POST'],
])('%s does not allow %s, and says what it allows: %s', async (path, method, allowed) => {
  const { status, body, headers } = await caller.send(method, path)
  const detail = `Method "${method}" not allowed.`
  expect([status, body, headers.get('allow')]).toEqual([405, { detail }, allowed])
})

it('of several unknown parameters the first one is named', async () => {
  const named = async (query: string) => (await caller.get(`/v2/forms?${query}`)).body
  expect(await named('page=1&b=1&a=2')).toEqual({ b: ['Validation error.'] })
  expect(await named('a=1&b=2&page_size=2')).toEqual({ a: ['Validation error.'] })
})
