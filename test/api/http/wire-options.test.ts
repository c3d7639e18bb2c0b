/** What the connections of a client are opened with, and what each request passes on. */
import { Readable } from 'node:stream'
import { beforeEach, expect, test, vi } from 'vitest'
import { openWire } from '../../../src/api/http/wire.ts'

const { asked } = vi.hoisted(() => ({ asked: [] as unknown[] }))

vi.mock('undici', () => ({
  Pool: class {
    constructor(origin: string, options: object) {
      asked.push(['open', origin, options])
    }
    async request({ signal, ...request }: { readonly signal: AbortSignal }) {
      asked.push(['request', request, signal.aborted])
      const headers = { 'Content-Type': 'text/csv', 'set-cookie': ['a=1', 'b=2'], 'x-absent': undefined }
      return { statusCode: 206, headers, body: Readable.from([Buffer.from('ab'), Buffer.from('c')]) }
    }
    async destroy() {
      asked.push(['destroy'])
    }
  },
}))

beforeEach(() => asked.splice(0))

const TIMEOUTS = { connect: 1_001, headers: 2_002, bodyIdle: 3_003, attempt: 404_404 }

test('each timeout applies to its part of an attempt; as many connections are opened as requested, with one request at a time on each', async () => {
  const wire = openWire('https://forms.example.com', 7, TIMEOUTS, 1_000)
  await wire.close()
  expect(asked).toEqual([
    [
      'open',
      'https://forms.example.com',
      {
        ...{ connections: 7, pipelining: 1, keepAliveTimeout: 10_000 },
        ...{ connect: { timeout: 1_001 }, headersTimeout: 2_002, bodyTimeout: 3_003 },
      },
    ],
    ['destroy'],
  ])
})

test('a request is passed on as it is, and so is the head of its answer: names in lower case, repeated headers joined', async () => {
  const wire = openWire('https://forms.example.com', 1, TIMEOUTS, 1_000)
  const request = { method: 'PUT', target: '/v2/forms/a?b=c', headers: { 'x-api-key': 'k' }, body: 'body' }
  const head = { status: 206, headers: { 'content-type': 'text/csv', 'set-cookie': 'a=1, b=2' } }
  expect(await wire.send(request, [])).toEqual({ ...head, body: Buffer.from('abc') })
  const { packed, release, ...rest } = (await wire.open({ ...request, body: null }, [])) as never as {
    readonly packed: Readable
    readonly release: () => void
  }
  expect(rest).toEqual(head)
  expect(await packed.toArray()).toEqual([Buffer.from('ab'), Buffer.from('c')])
  release()
  const { target: path, ...same } = request
  expect(asked.slice(1)).toEqual([
    ['request', { ...same, path }, false],
    ['request', { ...same, path, body: null }, false],
  ])
})
