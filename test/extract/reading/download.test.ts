/** One export's file: which response is accepted, which is requested again, and which is rejected. */
import type http from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { download } from '../../../src/extract/reading/read-export-file.ts'
import type { Source } from '../../../src/extract/source.ts'
import { spool } from '../../../src/load/exports/spool.ts'
import { clientOf, type Received } from '../../api/support/service.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeAll(async () => {
  rig = await openRig()
})
afterAll(() => rig[Symbol.asyncDispose]())

/** Pauses, which end at once. */
let pauses: number[] = []
const clock: Clock = {
  now: systemClock.now,
  sleep: async (milliseconds, signal) => {
    // A run that is stopped ends each of them.
    expect(signal).toBeInstanceOf(AbortSignal)
    pauses.push(milliseconds)
  },
}
beforeEach(() => {
  pauses = []
  ;(rig.service.received as Received[]).length = 0
})

type Answer = (response: http.ServerResponse) => void

/** Answers with these, one after another. */
async function get(answers: readonly Answer[], known: string | null = null, over: Partial<Source> = {}) {
  const left = [...answers]
  rig.service.interfere = (_, response) => {
    left.shift()!(response)
    return true
  }
  const source = await rig.source('exports', { clock, ...over })
  const taken: string[] = []
  const result = download(source, 'e1', known, async (pieces) => {
    const bytes: Buffer[] = []
    const spooled = await spool(
      null,
      (async function* () {
        for await (const piece of pieces) {
          bytes.push(piece)
          yield piece
        }
      })(),
    )
    taken.push(Buffer.concat(bytes).toString())
    return spooled
  })
  return { result, taken, unused: () => left.length }
}

const TYPE = { 'content-type': 'text/csv' }
/** With a declared length. */
const sized =
  (text: string, headers: http.OutgoingHttpHeaders = TYPE): Answer =>
  (response) =>
    void response.writeHead(200, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text)
/** Ends with the connection, as a cut one would. */
const unsized =
  (text: string): Answer =>
  (response) => {
    response.shouldKeepAlive = false
    response.removeHeader('transfer-encoding')
    response.useChunkedEncodingByDefault = false
    response.writeHead(200, { ...TYPE, connection: 'close' }).end(text)
  }
/** Breaks off before the declared length. */
const broken =
  (text: string): Answer =>
  (response) => {
    response.writeHead(200, { ...TYPE, 'content-length': Buffer.byteLength(text) + 10 })
    response.write(text, () => response.destroy())
  }
const hashOf = async (text: string) => (await spool(null, one(text))).hash
async function* one(text: string) {
  yield Buffer.from(text)
}

const CSV = 'Client ID,a\r\n1,2\r\n'

describe('is accepted at once', () => {
  test.each<[string, string, http.OutgoingHttpHeaders]>([
    ['when its length is declared and it ends with a line', CSV, TYPE],
    ['when it ends with a CR', 'a,b\r', TYPE],
    [
      'when it is a JSON string that ends with its quote',
      '"a,b\\r\\n1,2"',
      { 'content-type': 'application/json; charset=utf-8' },
    ],
  ])('%s', async (_, text, headers) => {
    const { result, unused, taken } = await get([sized(text, headers), sized('never')])
    const downloaded = await result
    expect(downloaded).toMatchObject({
      spooled: { hash: await hashOf(text) },
      contentType: headers['content-type'],
    })
    expect(downloaded.observedAt <= ago(0)).toBe(true)
    expect([unused(), taken]).toEqual([1, [text]])
  })

  test('when it equals the loaded file, however it ends', async () => {
    for (const answer of [sized('a,b'), unsized('a,b')]) {
      const { result, unused } = await get([answer, sized('never')], await hashOf('a,b'))
      expect((await result).spooled.hash).toBe(await hashOf('a,b'))
      expect(unused()).toBe(1)
    }
  })
})

describe('is accepted when two responses agree', () => {
  test.each<[string, (text: string) => Answer, string]>([
    ['one that does not end with a line', sized, 'a,b'],
    ['one in quotes that is no JSON', sized, '"a,b"'],
    ['one without a declared length', unsized, CSV],
    ['an empty one', sized, ''],
  ])('%s', async (_, answer, text) => {
    const { result, taken } = await get([answer(text), answer(text), sized('never')])
    expect((await result).spooled.hash).toBe(await hashOf(text))
    expect(taken).toEqual([text, text])
    expect(pauses).toEqual([])
  })

  test('the second and the third, if the first differed', async () => {
    const { result, taken } = await get([sized('a'), sized('ab'), sized('ab')])
    expect((await result).spooled.hash).toBe(await hashOf('ab'))
    expect(taken).toHaveLength(3)
  })

  test('and not when all three differ, though the first equals an earlier loaded file', async () => {
    const { result, unused } = await get([sized('a'), sized('b'), sized('a'), sized('a')], await hashOf('z'))
    await expect(result).rejects.toMatchObject({ code: 'file_refused', verdict: 'dead_letter' })
    expect(unused()).toBe(1)
  })
})

describe('a body that breaks off', () => {
  test('is requested again after growing pauses, and the complete one is read from its start', async () => {
    const { result, taken } = await get([broken('Client'), broken('Client ID'), sized(CSV)])
    expect((await result).spooled.hash).toBe(await hashOf(CSV))
    expect(taken).toEqual([CSV])
    expect(pauses).toEqual([500, 1_000])
  })

  test('is requested again too where it stops without an end', async () => {
    const hanging: Answer = (response) => {
      response.writeHead(200, { ...TYPE, 'content-length': 100 }).write('Client')
    }
    await using hasty = clientOf(rig.service.url, { timeouts: { bodyIdle: 100 } })
    const { result, taken } = await get([hanging, sized(CSV)], null, { client: hasty.client })
    expect((await result).spooled.hash).toBe(await hashOf(CSV))
    expect([taken, pauses]).toEqual([[CSV], [500]])
  })

  test('three times is its failure', async () => {
    const { result, unused } = await get([broken('a'), broken('b'), broken('c'), sized(CSV)])
    await expect(result).rejects.toMatchObject({ code: 'connection_lost', verdict: 'retry' })
    expect(unused()).toBe(1)
  })
})

test.each(['text/html', 'TEXT/HTML; charset=utf-8', 'application/xhtml+html'])(
  'an HTML page in place of the file (%s) is rejected, and not requested again',
  async (type) => {
    const { result, unused, taken } = await get([sized('<p>\n', { 'content-type': type }), sized(CSV)])
    await expect(result).rejects.toMatchObject({ code: 'file_refused', verdict: 'dead_letter' })
    expect([unused(), taken]).toEqual([1, []])
  },
)

test('a failure of the receiver of the bytes is not retried', async () => {
  rig.service.interfere = (_, response) => {
    sized(CSV)(response)
    return true
  }
  const source = await rig.source('exports', { clock })
  const fault = new Error('no space left')
  await expect(download(source, 'e1', null, () => Promise.reject(fault))).rejects.toBe(fault)
  expect(rig.service.received).toHaveLength(1)
  // The unread body blocks no request: as many as allowed can be sent again.
  for (let nth = 0; nth < 8; nth++) {
    await expect(download(source, 'e1', null, () => Promise.reject(fault))).rejects.toBe(fault)
  }
})
