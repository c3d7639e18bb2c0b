/** One attempt over HTTP: however it ends, neither its timer nor a listener stays, which would keep the process alive. */
import { getEventListeners } from 'node:events'
import { afterEach, expect, test, vi } from 'vitest'
import { BodyFault, DEFAULT_TIMEOUTS, openWire } from '../../../src/api/http/wire.ts'
import { type Handler, startService } from '../support/service.ts'

afterEach(() => vi.restoreAllMocks())

const REQUEST = { method: 'GET', target: '/v2/forms', headers: {}, body: null }

const ENDS: readonly (readonly [how: string, handler: Handler])[] = [
  ['an answer', (_, response) => response.end('{}')],
  ['a refusal', (_, response) => response.writeHead(404).end('no')],
  ['a body that is too large', (_, response) => response.writeHead(404).end('x'.repeat(2_000))],
  [
    'a body that cannot be unpacked',
    (_, response) => response.writeHead(404, { 'content-encoding': 'gzip' }).end('x'),
  ],
  ['a broken connection', (_, response) => response.socket!.resetAndDestroy()],
]

test.each(ENDS)('after %s nothing is left of the attempt', async (_how, handler) => {
  await using service = await startService(handler)
  const wire = openWire(service.url, 2, { ...DEFAULT_TIMEOUTS, attempt: 123_456 }, 1_000)
  const set = vi.spyOn(globalThis, 'setTimeout')
  const cleared = vi.spyOn(globalThis, 'clearTimeout')
  const { signal } = new AbortController()
  for (const does of [wire.send, wire.open]) {
    const answer = await does(REQUEST, [signal]).catch((error: unknown) => error)
    if (answer !== null && typeof answer === 'object' && 'release' in answer && 'packed' in answer) {
      // The body is still to be read: an abort must reach it, and no deadline does.
      expect(getEventListeners(signal, 'abort')).toHaveLength(1)
      ;(answer.release as () => void)()
    }
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  }
  const timers = set.mock.results.filter((_, at) => set.mock.calls[at]![1] === 123_456)
  const ended = new Set(cleared.mock.calls.map(([timer]) => timer))
  expect(timers.map(({ value }) => ended.has(value))).toEqual([true, true])
  await wire.close()
})

test('a body as large as it may be is read, and one byte more is a fault', async () => {
  await using service = await startService(({ url }, response) =>
    response.end('x'.repeat(Number(url.slice(1)))),
  )
  const wire = openWire(service.url, 1, DEFAULT_TIMEOUTS, 1_000)
  const read = (bytes: number) => wire.send({ ...REQUEST, target: `/${bytes}` }, [])
  expect((await read(1_000)).body).toHaveLength(1_000)
  await expect(read(1_001)).rejects.toBeInstanceOf(BodyFault)
  await wire.close()
})

test('an answer without a body is empty, whatever content encoding its headers name', async () => {
  await using service = await startService((_, response) =>
    response.writeHead(404, { 'content-encoding': 'zstd' }).end(),
  )
  const wire = openWire(service.url, 1, DEFAULT_TIMEOUTS, 1_000)
  for (const does of [wire.send, wire.open]) {
    expect(await does(REQUEST, [])).toMatchObject({ status: 404, body: Buffer.alloc(0) })
  }
  await wire.close()
})
