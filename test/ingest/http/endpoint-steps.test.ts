/** How the endpoint uses the server of Node: its limits, what it listens on, and how it ends each kind of connection. */
import { EventEmitter } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { beforeEach, expect, test, vi } from 'vitest'
import { type Endpoint, openEndpoint } from '../../../src/ingest/http/endpoint.ts'
import { LIMITS } from '../../../src/ingest/http/in-flight.ts'

vi.mock('node:http', async (original) => ({ ...(await original<object>()), createServer: vi.fn() }))

let steps: unknown[]
let server: EventEmitter
let answer: (request: IncomingMessage, response: ServerResponse) => void
let endpoint: Endpoint
let address: { address: string; port: number }

beforeEach(() => {
  ;[steps, address] = [[], { address: '127.0.0.1', port: 80 }]
  vi.mocked(createServer).mockImplementation(((options: object, given: typeof answer) => {
    steps.push(options)
    answer = given
    server = Object.assign(new EventEmitter(), {
      listen(where: object) {
        steps.push(where)
        queueMicrotask(() => server.emit('listening'))
      },
      close() {
        steps.push('close')
        queueMicrotask(() => server.emit('close'))
      },
      closeAllConnections: () => void steps.push('cut'),
      address: () => address,
    })
    return server
  }) as never)
  endpoint = openEndpoint(
    { ...LIMITS, body: 100 },
    { add: (socket) => void steps.push(`add ${nameOf(socket)}`) },
    {
      teams: ['north'],
      receive: (_, __, team) => void steps.push(`receive for ${team ?? 'the only team'}`),
      elsewhere: () => void steps.push('elsewhere'),
      malformed: () => void steps.push('malformed'),
    },
  )
  steps.length = 0
})
const nameOf = (socket: Socket) => (socket as unknown as { name: string }).name

function socketOf(name: string, writable = true) {
  return Object.assign(new EventEmitter(), {
    ...{ name, writable },
    pause: () => void steps.push(`pause ${name}`),
    destroy: () => void steps.push(`destroy ${name}`),
    end(text: string, done: () => void) {
      steps.push(text.split('\r\n'))
      done()
    },
  }) as unknown as Socket
}
/** A request on the socket, and its response, which notes what is set and sent. */
function exchange(socket: Socket, { url = '/webhooks/north', length = '0', complete = true } = {}) {
  const request = { ...{ socket, url, method: 'POST', complete }, headers: { 'content-length': length } }
  const response = Object.assign(new EventEmitter(), {
    writableFinished: false,
    setHeader: (name: string, value: string) => void steps.push(`${name}: ${value}`),
    writeContinue: () => void steps.push('continue'),
    writeHead: (status: number) => void steps.push(status),
    end: () => {},
  })
  return { request: request as never, response: response as never, sent: response }
}
const done = () => steps.splice(0)

test('the server has the limits of the ingester', async () => {
  openEndpoint(LIMITS, { add: () => {} }, { teams: [] } as never)
  expect(done()).toEqual([
    {
      ...{ keepAliveTimeout: 65_000, requestTimeout: 30_000, headersTimeout: 5_000 },
      ...{ connectionsCheckingInterval: 1_000, requireHostHeader: false },
    },
  ])
})

test.each([
  ['127.0.0.1', 'http://127.0.0.1:81'],
  ['0.0.0.0', 'http://127.0.0.1:81'],
  ['::', 'http://[::]:81'],
  ['10.1.2.3', 'http://10.1.2.3:81'],
])(
  'listening on %s, with room for thousands of connections in the kernel, it is found at %s',
  async (host, url) => {
    address = { address: host, port: 81 }
    expect(await endpoint.listen(host, 7)).toBe(url)
    expect(done()).toEqual([{ host, port: 7, backlog: 4_096 }])
  },
)

test('closing ends only connections that sent nothing, and lets others end after their answer', async () => {
  const [silent, quiet, ended, busy] = ['silent', 'quiet', 'ended', 'busy'].map((name) => socketOf(name)) as [
    Socket,
    Socket,
    Socket,
    Socket,
  ]
  for (const socket of [silent, quiet, ended, busy]) server.emit('connection', socket)
  expect(done()).toEqual(['add silent', 'add quiet', 'add ended', 'add busy'])
  ended.emit('close')
  const first = exchange(busy)
  answer(first.request, first.response)
  expect(done()).toEqual(['receive for north'])
  await endpoint.close()
  expect(done()).toEqual(['destroy silent', 'destroy quiet', 'close'])
  answer(first.request, first.response)
  expect(done()).toEqual(['connection: close', 'receive for north'])
  endpoint.cut()
  expect(done()).toEqual(['cut'])
})

test.each([
  ['0', ['continue', 'receive for north']],
  ['100', ['continue', 'receive for north']],
  ['101', ['connection: close', 'receive for north']],
])('a body of %s bytes is asked for, unless it is too long', (length, expected) => {
  const { request, response } = exchange(socketOf('a'), { length })
  server.emit('checkContinue', request, response)
  expect(done()).toEqual(expected)
  server.emit('checkExpectation', request, response)
  expect(done()).toEqual(['receive for north'])
})

const malformed = (code: string) => Object.assign(new Error('canary'), { code })
/** The reasons are those of this version of Node. */
function answered(status: number): readonly string[] {
  const reason = STATUS_CODES[status]!
  const body = JSON.stringify({ detail: `${reason}.` })
  const type = 'Content-Type: application/json; charset=utf-8'
  return [
    `HTTP/1.1 ${status} ${reason}`,
    type,
    `Content-Length: ${body.length}`,
    'Connection: close',
    '',
    body,
  ]
}

test.each([
  ['ERR_HTTP_REQUEST_TIMEOUT', 408],
  ['HPE_HEADER_OVERFLOW', 431],
  ['HPE_CHUNK_EXTENSIONS_OVERFLOW', 413],
  ['HPE_INVALID_METHOD', 400],
])('bytes that are no request (%s) are answered %i, and their connection ends', (code, status) => {
  server.emit('clientError', malformed(code), socketOf('a'))
  expect(done()).toEqual(['malformed', answered(status), 'destroy a'])
})

test('a connection that its peer ended, or that takes no answer, ends without one', () => {
  server.emit('clientError', malformed('ECONNRESET'), socketOf('a'))
  server.emit('clientError', malformed('HPE_INVALID_METHOD'), socketOf('b', false))
  expect(done()).toEqual(['malformed', 'destroy a', 'malformed', 'destroy b'])
})

test('garbage is answered after the last complete request before it, whatever is answered sooner', () => {
  const socket = socketOf('a')
  const [first, second, third] = [{}, {}, { complete: false }].map((more) => exchange(socket, more))
  for (const each of [first!, second!, third!]) answer(each.request, each.response)
  done()
  server.emit('clientError', malformed('HPE_INVALID_METHOD'), socket)
  expect(done()).toEqual(['malformed', 'pause a'])
  for (const each of [third!, first!]) each.sent.emit('close')
  expect(done()).toEqual([])
  second!.sent.emit('close')
  expect(done()).toEqual([answered(400), 'destroy a'])
})

test('once all requests of a connection are answered, garbage on it is answered at once', () => {
  const socket = socketOf('a')
  const { request, response, sent } = exchange(socket)
  answer(request, response)
  sent.writableFinished = true
  done()
  server.emit('clientError', malformed('HPE_INVALID_METHOD'), socket)
  expect(done()).toEqual(['malformed', answered(400), 'destroy a'])
})
