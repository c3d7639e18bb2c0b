/**
 * Odd requests to the webhook endpoint: nothing may be stored that nobody signed, every request is answered or its
 * connection closed, answers say nothing of the inside, and the next signed event is stored.
 */
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { SIGNATURE_HEADER, sign } from '../../src/core/signature.ts'
import { eventOf } from './traffic.ts'

export interface OddRequest {
  readonly name: string
  readonly bytes: Buffer
  /** How many events of it are signed, and so answered 200; of the others none is answered 2xx. */
  readonly signed: number
}

/** Text that no answer may contain: places and values of the inside. */
const INSIDE = /node_modules|\/src\/|dist\/|\bat \w+ \(|postgres|select |stack|secret of/i
const LIMIT_MS = 15_000

export function oddRequests(secret: string): readonly OddRequest[] {
  const event = eventOf('odd')
  const made: OddRequest[] = []
  const odd = (name: string, ...parts: readonly (string | Buffer)[]) =>
    made.push({ name, bytes: Buffer.concat(parts.map((each) => Buffer.from(each))), signed: 0 })
  const signed = (name: string, count: number, ...parts: readonly (string | Buffer)[]) =>
    made.push({ name, bytes: Buffer.concat(parts.map((each) => Buffer.from(each))), signed: count })
  const head = (lines: readonly string[], start = 'POST /webhooks HTTP/1.1') =>
    `${[start, 'Host: here', ...lines].join('\r\n')}\r\n\r\n`
  const length = `Content-Length: ${event.length}`
  const signature = (value: string) => `${SIGNATURE_HEADER}: ${value}`
  const right = signature(sign(event, secret))
  const whole = (body: Buffer, lines: readonly string[] = []) =>
    Buffer.concat([
      Buffer.from(head([signature(sign(body, secret)), `Content-Length: ${body.length}`, ...lines])),
      body,
    ])

  odd('a greeting of another protocol', 'HELO example.org\r\n\r\n')
  odd('bytes of zero', Buffer.alloc(1_000))
  odd(
    'the first bytes of TLS',
    Buffer.from('16030100c2010000be0303', 'hex'),
    Buffer.alloc(190, 7),
    '\r\n\r\n',
  )
  odd('the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  odd('HTTP/0.9', 'POST /webhooks\r\n\r\n')
  odd('a version that does not exist', head([length, right], 'POST /webhooks HTTP/9.9'), event)
  odd('a method in lower case', head([length, right], 'post /webhooks HTTP/1.1'), event)
  odd('CONNECT', head([], 'CONNECT 127.0.0.1:5432 HTTP/1.1'))
  odd('TRACE', head([], 'TRACE /webhooks HTTP/1.1'))
  for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])
    odd(method, head([length, right], `${method} /webhooks HTTP/1.1`), event)
  for (const path of [
    ...[
      '/',
      '/metrics',
      '/healthz',
      '/webhooks/../metrics',
      '/webhooks/%2e%2e/metrics',
      '/webhooks/..%2fmetrics',
    ],
    ...[
      '/webhooks/nobody',
      '/webhooks/%00',
      '/webhooks/%zz',
      '/webhooks/%F0%9F%98%80',
      '/webhooks/__proto__',
    ],
    ...["/webhooks/';drop%20table%20intake.patients;--", `/webhooks/${'x'.repeat(12_000)}`],
    ...['http://127.0.0.1:9090/metrics', '*'],
  ])
    odd(`the path ${path.slice(0, 30)}`, head([length, right], `POST ${path} HTTP/1.1`), event)
  odd('no signature', head([length]), event)
  odd('an empty signature', head([length, signature('')]), event)
  odd('the signature of another body', head([length, signature(sign(eventOf('other'), secret))]), event)
  odd('half a signature', head([length, signature(sign(event, secret).slice(0, 32))]), event)
  odd('a signature with another key', head([length, signature(sign(event, 'a secret'))]), event)
  odd('a signature with an empty key', head([length, signature(sign(event, ''))]), event)
  odd(
    'a signature in base64',
    head([length, signature(Buffer.from(sign(event, secret), 'hex').toString('base64'))]),
    event,
  )
  odd('a signature twice, once wrong', head([length, right, signature('f'.repeat(64))]), event)
  odd('a signature that is no hex', head([length, signature('é'.repeat(64))]), event)
  odd('a signature of 30 KB', head([length, signature('f'.repeat(30_000))]), event)
  odd(
    'a signature in the address',
    head([length], `POST /webhooks?signature=${sign(event, secret)} HTTP/1.1`),
    event,
  )
  odd(
    'a signature of the body before it was compressed',
    head(['Content-Encoding: gzip', `Content-Length: ${gzipSync(event).length}`, right]),
    gzipSync(event),
  )
  odd('two lengths', head([length, 'Content-Length: 1', right]), event)
  odd('a length and chunks', head([length, 'Transfer-Encoding: chunked', right]), '0\r\n\r\n', event)
  odd('a negative length', head(['Content-Length: -1', right]), event)
  odd('a length in hexadecimal', head(['Content-Length: 0x10', right]), event)
  odd('a length beyond all numbers', head(['Content-Length: 99999999999999999999999', right]), event)
  odd('six megabytes', head(['Content-Length: 6000000', right]), Buffer.alloc(100_000, 'x'))
  odd('a chunk without a size', head(['Transfer-Encoding: chunked', right]), 'zz\r\n')
  odd('a chunk beyond all numbers', head(['Transfer-Encoding: chunked', right]), `${'F'.repeat(20)}\r\n`)
  odd('an encoding that does not exist', head(['Transfer-Encoding: cow', right]), event)
  odd('a header of 40 KB', `POST /webhooks HTTP/1.1\r\nX: ${'x'.repeat(40_000)}`)
  odd(
    'five thousand headers',
    head([...Array.from({ length: 5_000 }, (_, at) => `X${at}: y`), length, right]),
    event,
  )
  odd('a folded header', head([length, `${SIGNATURE_HEADER}:\r\n ${'f'.repeat(64)}`]), event)
  odd('a header without a colon', head([length, right, 'nothing']), event)
  odd('a space before a colon', head([length, `${SIGNATURE_HEADER} : ${sign(event, secret)}`]), event)
  odd('lines without returns', head([length, right]).replaceAll('\r', ''), event)
  signed('no host', 1, `POST /webhooks HTTP/1.1\r\n${length}\r\n${right}\r\n\r\n`, event)
  signed('an expectation that nobody meets', 1, head(['Expect: a-miracle', length, right]), event)
  odd(
    'a request for a WebSocket',
    head(['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Key: eA=='], 'GET /webhooks HTTP/1.1'),
  )
  signed(
    'an unsigned request inside the body of a signed one',
    1,
    whole(Buffer.from(head([length], 'POST /webhooks HTTP/1.1'))),
  )
  signed('a signed event, then an unsigned one', 1, whole(eventOf('before')), head([length]), event)
  signed(
    'fifty signed events at once',
    50,
    ...Array.from({ length: 50 }, (_, at) => whole(eventOf(`at once ${at}`))),
  )
  signed('an empty body', 1, whole(Buffer.alloc(0)))
  signed('a body that is no JSON', 1, whole(Buffer.from('{"id": ')))
  signed('bytes that are no text', 1, whole(Buffer.from([0x7b, 0xff, 0xfe, 0x00, 0x7d])))
  signed(
    'names of prototypes',
    1,
    whole(Buffer.from('{"__proto__":{"id":"x"},"constructor":{"prototype":1},"id":"proto"}')),
  )
  signed('600 levels', 1, whole(Buffer.from(`${'['.repeat(600)}${']'.repeat(600)}`)))
  signed('a number with a million digits', 1, whole(Buffer.from(`{"id":${'9'.repeat(1_000_000)}}`)))
  signed('an event in chunks of a byte', 1, chunked(event, right))
  return made

  function chunked(body: Buffer, line: string): Buffer {
    const chunks = [...body].map((byte) =>
      Buffer.concat([Buffer.from('1\r\n'), Buffer.from([byte]), Buffer.from('\r\n')]),
    )
    return Buffer.concat([
      Buffer.from(head(['Transfer-Encoding: chunked', line])),
      ...chunks,
      Buffer.from('0\r\n\r\n'),
    ])
  }
}

/** The statuses of its answers and all that was received, once the connection ended or `answers` came. */
function ask(
  url: string,
  bytes: Buffer,
  answers: number,
): Promise<{ statuses: number[]; text: string; late: boolean }> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    let text = ''
    const statuses = () => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((each) => Number(each[1]))
    const finish = (late: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ statuses: statuses().filter((each) => each !== 100), text, late })
    }
    const timer = setTimeout(() => finish(true), LIMIT_MS)
    socket.on('error', () => {})
    socket.on('close', () => finish(false))
    socket.on('data', (part) => {
      text += part.toString('latin1')
      if (statuses().filter((each) => each !== 100).length >= answers && /\r\n\r\n/.test(text))
        setTimeout(() => finish(false), 50)
    })
    socket.write(bytes)
  })
}

/** What succeeded of one odd request. `stored` counts the rows of the inbox. */
export async function sendOdd(
  { bytes, signed }: OddRequest,
  to: {
    readonly url: string
    readonly stored: () => Promise<number>
    readonly send: () => Promise<number | string>
  },
): Promise<readonly string[]> {
  const before = await to.stored()
  const { statuses, text, late } = await ask(to.url, bytes, Math.max(1, signed))
  const after = await to.stored()
  const accepted = statuses.filter((status) => status < 400).length
  const next = await to.send()
  return [
    late ? `neither answered nor closed in ${LIMIT_MS / 1000} s` : '',
    accepted === signed ? '' : `${accepted} answers of ${statuses.join(', ')} accept, not ${signed}`,
    after - before > signed ? `${after - before} rows stored, ${signed} signed` : '',
    INSIDE.test(text) ? 'the answer shows the inside' : '',
    next === 200 ? '' : `the next signed event was answered ${next}`,
  ].filter((each) => each !== '')
}
