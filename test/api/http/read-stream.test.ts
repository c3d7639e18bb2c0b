/** A body as a stream: complete or an error, never kept in memory as a whole, and its permit returned. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { PassThrough, Readable, type Writable } from 'node:stream'
import { setTimeout as later } from 'node:timers/promises'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { unpackedStream } from '../../../src/api/http/read-stream.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { type Client, type Streamed, streamExport } from '../../../src/index.ts'
import { CLOCK_APART_MS, clientOf, errorOf, type Handler, json, startService } from '../support/service.ts'

const open = (client: Client, maxBytes?: number): Promise<Streamed> =>
  streamExport(client, 'e', 'raw_text', maxBytes === undefined ? {} : { maxBytes })

const textOf = async ({ stream }: Streamed): Promise<string> =>
  Buffer.concat(await stream.toArray()).toString()

/** Resolves when `condition` holds. */
const until = (condition: () => boolean): Promise<void> => expect.poll(condition, { interval: 5 }).toBe(true)

/** A server that writes `text` to a connection unchanged, and then closes it. */
async function startRaw(text: string): Promise<{ url: string } & AsyncDisposable> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket
      .on('error', () => {})
      .once('data', () => socket.write(text, () => setTimeout(() => socket.end(), 20)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

describe('the result contains', () => {
  test('the bytes, the headers and the times', async () => {
    await using service = await startService((_, response) =>
      response.writeHead(200, { 'content-type': 'text/csv' }).end('\ufeffa,b\r\n'),
    )
    await using heard = clientOf(service.url)
    const before = Date.now()
    const begun = systemClock.now()
    const streamed = await open(heard.client)
    expect(streamed).toMatchObject({ status: 200, endKnown: true })
    expect(streamed.headers['content-type']).toBe('text/csv')
    // Whole seconds, and Node caches the text until its timer fires.
    expect(streamed.serviceDate!).toBeGreaterThan(before + CLOCK_APART_MS - 2000)
    expect(streamed.serviceDate!).toBeLessThanOrEqual(Date.now() + CLOCK_APART_MS)
    expect(streamed.startedAt).toBeGreaterThanOrEqual(begun)
    expect(streamed.receivedAt).toBeGreaterThanOrEqual(streamed.startedAt)
    expect(await textOf(streamed)).toBe('\ufeffa,b\r\n')
    expect(service.received[0]!.headers).toMatchObject({
      accept: '*/*',
      'accept-encoding': 'gzip, deflate, br',
    })
  })

  test('an empty file, compressed or not', async () => {
    await using service = await startService((_, response, index) =>
      [
        () => response.writeHead(204).end(),
        () => response.end(),
        () => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('')),
        () => response.writeHead(200, { 'content-encoding': 'gzip' }).end(),
      ][index]!(),
    )
    await using heard = clientOf(service.url)
    for (let index = 0; index < 4; index++) expect(await textOf(await open(heard.client))).toBe('')
  })

  test.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('%s is decompressed', async (encoding, pack) => {
    const text = 'Client ID,First Name\r\n'.repeat(20_000)
    await using service = await startService((_, response) =>
      response.writeHead(200, { 'content-encoding': encoding }).end(pack(text)),
    )
    await using heard = clientOf(service.url)
    expect(await textOf(await open(heard.client))).toBe(text)
  })
})

describe('the head is checked like any answer', () => {
  test.each([
    ['500', ((_, response) => json(response, {}, 500)) as Handler],
    ['429', ((_, response) => json(response, {}, 429, { 'retry-after': '0' })) as Handler],
    ['a reset', ((_, response) => response.socket!.resetAndDestroy()) as Handler],
    [
      'an encoding unknown to us',
      ((_, response) => response.writeHead(200, { 'content-encoding': 'zstd' }).end('x')) as Handler,
    ],
  ])('%s is retried', async (_name, handler) => {
    await using service = await startService((request, response, index) =>
      index === 0 ? handler(request, response, index) : response.end('a\r\n'),
    )
    await using heard = clientOf(service.url, { concurrency: 1 })
    expect(await textOf(await open(heard.client))).toBe('a\r\n')
    expect(service.received).toHaveLength(2)
  })

  test.each([
    [401, 'no_credentials', 'stop'],
    [404, 'not_found', 'gone'],
    [400, 'refused', 'dead_letter'],
    [300, 'redirected', 'stop'],
    [301, 'redirected', 'stop'],
  ])('%i is %s: %s', async (status, code, verdict) => {
    await using service = await startService((_, response) =>
      json(response, { detail: 'SAID' }, status, { location: 'http://elsewhere.invalid/' }),
    )
    await using heard = clientOf(service.url)
    expect(await errorOf(open(heard.client))).toMatchObject({ code, verdict, status, tries: 1 })
  })
})

describe('a body that breaks off is an error with verdict retry, never a short file', () => {
  const CUT = {
    'within its length': 'content-length: 50\r\n\r\nhello',
    'within its length, closing': 'connection: close\r\ncontent-length: 50\r\n\r\nhello',
    'within a chunk': 'transfer-encoding: chunked\r\n\r\n10\r\nhello',
    'between two chunks': 'transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n',
    'within a chunk, closing': 'connection: close\r\ntransfer-encoding: chunked\r\n\r\n10\r\nhello',
    'between two chunks, closing': 'connection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n',
  }

  test.each(Object.entries(CUT))('%s', async (_name, rest) => {
    await using raw = await startRaw(`HTTP/1.1 200 OK\r\n${rest}`)
    await using heard = clientOf(raw.url)
    const error = await errorOf(open(heard.client).then(textOf))
    expect(error).toMatchObject({ name: 'ApiError', code: 'connection_lost', verdict: 'retry' })
    expect(error.message).toContain('POST /v2/export-csv: the connection broke')
    expect(JSON.stringify([error, error.stack])).not.toContain('hello')
  })

  test('when the connection is reset in the middle', async () => {
    await using service = await startService((_, response) => {
      response.writeHead(200)
      response.write('x'.repeat(300_000), () => setTimeout(() => response.socket!.resetAndDestroy(), 30))
    })
    await using heard = clientOf(service.url)
    const { stream } = await open(heard.client)
    expect(await errorOf(stream.toArray())).toMatchObject({ code: 'connection_lost', verdict: 'retry' })
  })

  test.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
  ])('within %s, although its length was right', async (encoding, pack) => {
    const packed = pack(randomBytes(50_000).toString('hex'))
    await using service = await startService((_, response) =>
      response.writeHead(200, { 'content-encoding': encoding }).end(packed.subarray(0, packed.length - 9)),
    )
    await using heard = clientOf(service.url)
    const { stream } = await open(heard.client)
    expect(await errorOf(stream.toArray())).toMatchObject({ code: 'bad_encoding', verdict: 'retry' })
  })

  test('when the body stalls', async () => {
    await using service = await startService((_, response) => response.writeHead(200).write('a,b'))
    await using heard = clientOf(service.url, { timeouts: { bodyIdle: 40 } })
    const { stream } = await open(heard.client)
    expect(await errorOf(stream.toArray())).toMatchObject({ code: 'timeout', verdict: 'retry' })
  })

  test('before anybody reads: the error waits for the reader', async () => {
    await using service = await startService((_, response) => {
      response.writeHead(200).write('a,b', () => response.destroy())
    })
    await using heard = clientOf(service.url)
    const { stream } = await open(heard.client)
    await until(() => stream.destroyed)
    const error = await errorOf(stream.toArray())
    expect(error).toMatchObject({ name: 'ApiError', code: 'connection_lost', verdict: 'retry' })
  })

  test('one without length or chunks cannot be distinguished from a complete one, and is marked', async () => {
    await using raw = await startRaw('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello')
    await using heard = clientOf(raw.url)
    const streamed = await open(heard.client)
    expect(streamed.endKnown).toBe(false)
    expect(await textOf(streamed)).toBe('hello')
  })
})

describe('its size', () => {
  test('may be up to `maxBytes`, decompressed; more is a dead letter', async () => {
    const text = 'x'.repeat(100_000)
    await using service = await startService((_, response, index) =>
      index % 2 === 0
        ? response.end(text)
        : response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(text)),
    )
    await using heard = clientOf(service.url, { concurrency: 1 })
    for (let index = 0; index < 2; index++) {
      expect(await textOf(await open(heard.client, 100_000))).toBe(text)
    }
    for (let index = 0; index < 2; index++) {
      const { stream } = await open(heard.client, 99_999)
      expect(await errorOf(stream.toArray())).toMatchObject({ code: 'too_large', verdict: 'dead_letter' })
    }
  })

  test('does not matter for memory: of 50 MB only a little is buffered at a time', async () => {
    const piece = Buffer.alloc(64 * 1024, 'x')
    const total = 800
    let written = 0
    await using service = await startService((_, response) => {
      const write = () => {
        while (written < total) {
          written += 1
          if (!response.write(piece)) return void response.once('drain', write)
        }
        response.end()
      }
      write()
    })
    await using heard = clientOf(service.url)
    const { stream } = await open(heard.client)
    // Nobody reads: the server can fill the buffers of the connection, which belong to the system, and no more.
    let before = -1
    while (written > before) {
      before = written
      await later(150)
    }
    expect(written).toBeLessThan(total / 2)
    expect(stream.readableLength).toBeLessThanOrEqual(4 * piece.length)
    let size = 0
    let most = 0
    for await (const chunk of stream) {
      size += chunk.length
      most = Math.max(most, stream.readableLength)
    }
    expect(size).toBe(total * piece.length)
    expect(most).toBeLessThanOrEqual(4 * piece.length)
  })

  test('takes any time: there is no deadline for the whole, and none while the reader pauses', async () => {
    await using service = await startService(async (_, response) => {
      response.writeHead(200)
      for (let index = 0; index < 8; index++) {
        response.write(Buffer.alloc(400_000, 'x'))
        await later(30)
      }
      response.end()
    })
    await using heard = clientOf(service.url, { timeouts: { attempt: 2_000, bodyIdle: 1_000 } })
    const { stream } = await open(heard.client)
    let size = 0
    for await (const chunk of stream) {
      // Once for longer than the connection may stall.
      if (size === 0) await later(2_600)
      size += chunk.length
    }
    expect(size).toBe(3_200_000)
  })
})

describe('while it is read it is one of the requests in flight', () => {
  const long: Handler = (request, response) => {
    if (request.method === 'GET') return json(response, {})
    response.writeHead(200)
    const timer = setInterval(() => response.write('x'.repeat(1000)), 5)
    response.on('close', () => clearInterval(timer))
  }

  test('so that others wait until it is read to its end', async () => {
    await using service = await startService((request, response) => {
      if (request.method === 'GET') return json(response, {})
      response.writeHead(200).write('a')
      setTimeout(() => response.end('b'), 100)
    })
    await using heard = clientOf(service.url, { concurrency: 1 })
    const streamed = await open(heard.client)
    const waiting = heard.client.get('/v2/forms')
    await later(50)
    expect(heard.client.totals.requests).toBe(1)
    expect(await textOf(streamed)).toBe('ab')
    expect((await waiting).status).toBe(200)
  })

  const ENDS: { readonly [name: string]: (streamed: Streamed) => unknown } = {
    'the reader stops early': async ({ stream }) => {
      for await (const _ of stream) break
    },
    'it is destroyed unread': ({ stream }) => void stream.destroy(),
    'it is destroyed with an error': ({ stream }) => void stream.destroy(new Error('of the reader')),
  }
  test.each(Object.entries(ENDS))('its permit and its connection are free when %s', async (_name, end) => {
    let closed = 0
    await using service = await startService((request, response, index) => {
      response.on('close', () => (closed += 1))
      long(request, response, index)
    })
    await using heard = clientOf(service.url, { concurrency: 1 })
    for (let round = 1; round <= 3; round++) {
      const streamed = await open(heard.client)
      const waiting = heard.client.get('/v2/forms')
      await end(streamed)
      expect((await waiting).status).toBe(200)
      await until(() => closed === 2 * round)
    }
  })

  test('a throttled request does not wait for the end of a stream', async () => {
    await using service = await startService((request, response, index) =>
      index === 1 ? json(response, {}, 429) : long(request, response, index),
    )
    await using heard = clientOf(service.url, { concurrency: 2 })
    const { stream } = await open(heard.client)
    expect((await heard.client.get('/v2/forms')).status).toBe(200)
    expect(service.received).toHaveLength(3)
    stream.destroy()
  })

  test('an abort ends it with its own reason, and so does close', async () => {
    await using service = await startService(long)
    await using heard = clientOf(service.url, { concurrency: 1 })
    const abort = new AbortController()
    const { stream } = await streamExport(heard.client, 'e', 'raw_text', { signal: abort.signal })
    const ended = errorOf(stream.toArray())
    setTimeout(() => abort.abort(new Error('stop it')), 30)
    expect((await ended).message).toBe('stop it')

    const next = errorOf((await open(heard.client)).stream.toArray())
    setTimeout(() => heard.client.close(), 30)
    expect((await next).message).toBe('the client is closed')
  })
})

test('a connection that closes before the end of the body, without a word, is a failure', async () => {
  const packed = new PassThrough()
  const counts = { released: 0, closed: 0 }
  const release = () => {
    counts.released += 1
  }
  const closed = () => {
    counts.closed += 1
  }
  const failed = (thrown: unknown) => new Error(`failed: ${(thrown as Error).message}`)
  const end = { maxBytes: 100, failed, closed }
  const body = unpackedStream({ status: 200, headers: {}, packed, release }, end)
  packed.write('Client')
  setImmediate(() => packed.destroy())
  expect((await errorOf(body.toArray())).message).toBe('failed: closed before its end')
  await until(() => counts.closed > 0)
  expect(counts).toEqual({ released: 1, closed: 1 })
})

test.each<[string, Record<string, string>]>([
  ['read to its end', {}],
  ['packed and read to its end', { 'content-encoding': 'gzip' }],
  ['destroyed', {}],
  ['packed in a way unknown to us', { 'content-encoding': 'zstd' }],
])(
  'a body that is %s stops listening to the signals of its call, once, and frees its connection',
  async (how, headers) => {
    const packed = Readable.from([how.startsWith('packed and') ? gzipSync('a,b\n') : Buffer.from('a,b\n')])
    const counts = { released: 0, closed: 0 }
    const release = () => {
      counts.released += 1
    }
    const closed = () => {
      counts.closed += 1
    }
    const end = { maxBytes: 100, failed: () => new Error('failed'), closed }
    const begin = () => unpackedStream({ status: 200, headers, packed, release }, end)
    if (how.includes('unknown')) expect(begin).toThrow()
    else if (how === 'destroyed') begin().destroy()
    else expect(Buffer.concat(await begin().toArray()).toString()).toBe('a,b\n')
    await until(() => packed.destroyed && counts.released > 0)
    expect(counts).toEqual({ released: 1, closed: how.includes('unknown') ? 0 : 1 })
  },
)

test('a packed body that nobody reads to its end frees the memory of what unpacks it', async () => {
  const packed = new PassThrough()
  const unpackers: Writable[] = []
  const { pipe } = packed
  packed.pipe = (to, options) => {
    unpackers.push(to as unknown as Writable)
    return pipe.call(packed, to, options) as typeof to
  }
  const end = { maxBytes: 100, failed: () => new Error('failed'), closed: () => {} }
  const headers = { 'content-encoding': 'gzip' }
  const body = unpackedStream({ status: 200, headers, packed, release: () => {} }, end)
  packed.write(gzipSync('a,b\n').subarray(0, 12))
  body.destroy()
  await once(body, 'close')
  expect([unpackers.map(({ destroyed }) => destroyed), packed.destroyed]).toEqual([[true], true])
})
