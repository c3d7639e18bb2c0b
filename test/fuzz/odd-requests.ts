/**
 * Requests to the ingester, most of them odd: events with little content, invalid bodies, every kind of wrong signature,
 * headers that change nothing.
 *
 * Invariant: the expected answer follows from how a request was drawn, not from reading it.
 */
import fc from 'fast-check'
import { sign } from '../../src/core/signature.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { naughtyJson } from '../core/naughty.ts'
import { patient } from '../ingest/drain/scene.ts'
import { SECRET } from '../ingest/support/ingest.ts'
import { chunksOf } from '../ingest/support/raw.ts'
import { anyText, damaged, jsonFiles } from './corpora.ts'

/** Small, so that bodies on both sides of it are drawn. */
export const MAX_BODY_BYTES = 6_000

const SOURCES = [...STREAMS.flatMap(({ source }) => source ?? []), 'appointment', '', 'inbox']
const id = fc.oneof(
  fc.constantFrom('p1', 'p2', 'p3'),
  fc.nat(9),
  anyText,
  fc.constantFrom(null, true, 2 ** 60, {}, []),
)
const stamp = fc.oneof(
  fc.constantFrom(
    '2026-01-01T00:00:00Z',
    '2026-01-01T00:00:00.123456+02:00',
    '9999-12-31T23:59:59Z',
    '0001-01-01',
    '',
  ),
  anyText,
)
const record = fc.oneof(
  fc.record(
    { id, updated_at: stamp, last_name: anyText, questions: fc.constantFrom([], null, 'x', {}) },
    { requiredKeys: [] },
  ),
  fc.tuple(id, anyText).map(([own, last_name]) => ({ ...patient('x', { last_name }), id: own })),
)
const event = fc
  .record(
    {
      id,
      timestamp: stamp,
      event_type: fc.oneof(fc.constantFrom('created', 'updated', 'deleted', 'restored'), anyText),
      source: fc.oneof(fc.constantFrom(...SOURCES), anyText),
      data: fc.oneof(record, id),
    },
    { requiredKeys: [] },
  )
  .map((value) => Buffer.from(JSON.stringify(value)))

const body: fc.Arbitrary<Buffer> = fc.oneof(
  { weight: 4, arbitrary: event },
  { weight: 2, arbitrary: damaged(event) },
  naughtyJson.map((text) =>
    Buffer.from(`{"id":"n","timestamp":"2026-01-01T00:00:00Z","source":"patient","data":${text}}`),
  ),
  naughtyJson.map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
  fc
    .tuple(fc.constantFrom('[', '{"a":', '"'), fc.integer({ min: 0, max: MAX_BODY_BYTES }))
    .map(([unit, times]) => Buffer.from(unit.repeat(times))),
  fc
    .integer({ min: MAX_BODY_BYTES - 2, max: MAX_BODY_BYTES + 2 })
    .map((length) => Buffer.alloc(length, 0x20)),
  ...(jsonFiles.length > 0 ? [fc.constantFrom(...jsonFiles), damaged(fc.constantFrom(...jsonFiles))] : []),
)

/** How a signature is given; only the first three are right. */
const SIGNATURES = [
  'right',
  'upper',
  'padded',
  'none',
  'empty',
  'other',
  'cut',
  'longer',
  'twice',
  'prefixed',
  'of-more',
] as const
type Signature = (typeof SIGNATURES)[number]
const RIGHT: ReadonlySet<Signature> = new Set(['right', 'upper', 'padded'])

function signatureLines(signature: Signature, bytes: Buffer): readonly string[] {
  const right = sign(bytes, SECRET)
  const line = (text: string) => [`X-Service-Signature: ${text}`]
  switch (signature) {
    case 'right':
      return line(right)
    case 'upper':
      return [`x-SERVICE-signature:${right.toUpperCase()}`]
    case 'padded':
      return line(`  ${right}\t `)
    case 'none':
      return []
    case 'empty':
      return line('')
    case 'other':
      return line(sign(bytes, `${SECRET} `))
    case 'cut':
      return line(right.slice(1))
    case 'longer':
      return line(`${right}00`)
    case 'twice':
      return [...line(right), ...line(right)]
    case 'prefixed':
      return line(`sha256=${right}`)
    case 'of-more':
      return line(sign(Buffer.concat([bytes, Buffer.from('\n')]), SECRET))
  }
}

const noise = fc.array(
  fc.constantFrom(
    ...[
      'Content-Type: application/json',
      'Content-Type: ;;=',
      'Content-Type: multipart/form-data; boundary=x',
    ],
    ...[
      'Content-Encoding: gzip',
      'Accept: nothing/at-all',
      'X-Forwarded-For: 1.2.3.4',
      'X-Signature: 00',
      'Cookie: a=b',
    ],
    ...[
      'Authorization: Basic Og==',
      'X-HTTP-Method-Override: GET',
      'X-Bytes: \x80\xff',
      'Content-Length-Hint: 5',
    ],
  ),
  { maxLength: 4 },
)

const PATHS = {
  '/webhooks': true,
  '/webhooks/clinic': true,
  '/webhooks/?x=1': true,
  '/webhooks/nobody': false,
  '/webhook': false,
} as const

export const request = fc.record({
  body,
  signature: fc.oneof(
    { weight: 5, arbitrary: fc.constant<Signature>('right') },
    fc.constantFrom(...SIGNATURES),
  ),
  noise,
  path: fc.oneof(
    { weight: 5, arbitrary: fc.constant('/webhooks' as const) },
    fc.constantFrom(...(Object.keys(PATHS) as (keyof typeof PATHS)[])),
  ),
  /** Bytes per chunk; 0 for a declared length. */
  chunk: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.constantFrom(64, 100, 4_096)),
})

export type Request = typeof request extends fc.Arbitrary<infer T> ? T : never

export function bytesOf({ body: bytes, signature, noise: lines, path, chunk }: Request): Buffer {
  const length = chunk === 0 ? `Content-Length: ${bytes.length}` : 'Transfer-Encoding: chunked'
  const head = [
    `POST ${path} HTTP/1.1`,
    'Host: here',
    ...signatureLines(signature, bytes),
    ...lines,
    length,
  ].join('\r\n')
  const rest = chunk === 0 ? bytes : Buffer.from(chunksOf(bytes, chunk), 'latin1')
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n`, 'latin1'), rest])
}

/** The status that the contract requires. */
export function expected({ body: bytes, signature, path }: Request): number {
  if (!PATHS[path]) return 404
  if (bytes.length > MAX_BODY_BYTES) return 413
  return RIGHT.has(signature) ? 200 : 400
}
