/** Slow, cut, chunked, pipelined and malformed requests: each is answered, memory stays flat, other clients are served. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { networksOf } from '../../../src/core/peers.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { startOwnTime } from '../../support/own-time.ts'
import { eventOf, inboxOf, known, openScene, post, query, SECRET } from '../support/ingest.ts'
import { chunksOf, headOf, openRaw, type RawConnection } from '../support/raw.ts'

describe('an event', () => {
  it('in chunks of one byte is stored with its bytes', async () => {
    await using scene = await openScene()
    await using raw = await openRaw(scene.ingester.url)
    const body = eventOf()
    raw.write(headOf(body, ['Transfer-Encoding: chunked']) + chunksOf(body, 1))
    expect((await raw.answers(1))[0]).toMatchObject({ status: 200, body: '{"status":"stored"}' })
    expect((await inboxOf(scene.url))[0]!.body.equals(body)).toBe(true)
  })

  it('in thousands of tiny chunks ends its connection, and affects no other', async () => {
    await using scene = await openScene()
    await using raw = await openRaw(scene.ingester.url)
    const body = eventOf({ data: { text: 'x'.repeat(50_000) } })
    raw.write(headOf(body, ['Transfer-Encoding: chunked']) + chunksOf(body, 1))
    await raw.ended
    expect(raw.received).toMatch(/^HTTP\/1\.1 400 /)
    expect(scene.recorded.rejected).toContain('malformed clinic')
    expect((await post(scene.ingester.url, eventOf())).status).toBe(200)
    expect(await inboxOf(scene.url)).toHaveLength(1)
  })

  it('that arrives slowly is stored when complete, and others are served in the meantime', async () => {
    await using scene = await openScene()
    await using raw = await openRaw(scene.ingester.url)
    const body = eventOf()
    raw.write(headOf(body))
    for (const byte of body.subarray(0, 20)) {
      raw.write(Buffer.from([byte]))
      await sleep(1)
    }
    expect((await post(scene.ingester.url, eventOf())).status).toBe(200)
    expect(await inboxOf(scene.url)).toHaveLength(1)
    raw.write(body.subarray(20))
    expect((await raw.answers(1))[0]!.status).toBe(200)
    expect(await inboxOf(scene.url)).toHaveLength(2)
  })

  it('that is cut short is neither stored nor kept', async () => {
    await using scene = await openScene()
    const body = eventOf()
    const cut = [await openRaw(scene.ingester.url), await openRaw(scene.ingester.url)]
    for (const raw of cut) raw.write(headOf(body) + body.subarray(0, 50).toString('latin1'))
    await expect.poll(() => scene.ingester.inFlight.events).toBe(2)
    expect(scene.ingester.inFlight.bytes).toBe(2 * 50)
    for (const raw of cut) raw.socket.destroy()
    await expect.poll(() => scene.ingester.inFlight).toMatchObject({ events: 0, bytes: 0 })
    expect(await inboxOf(scene.url)).toEqual([])
  })

  it('that takes too long is neither stored nor kept', async () => {
    await using scene = await openScene({ limits: { requestMs: 400, headersMs: 300, checkMs: 50 } })
    await using slow = await openRaw(scene.ingester.url)
    const body = eventOf()
    slow.write(headOf(body) + body.subarray(0, 50).toString('latin1'))
    await slow.ended
    expect(slow.received).toMatch(/^HTTP\/1\.1 408/)
    await expect.poll(() => scene.ingester.inFlight).toMatchObject({ events: 0, bytes: 0 })
    expect(await inboxOf(scene.url)).toEqual([])
  })

  it('after many others on one connection, all sent at once, is answered in its turn', async () => {
    await using scene = await openScene()
    await using raw = await openRaw(scene.ingester.url)
    const bodies = Array.from({ length: 200 }, (_, at) => eventOf({ id: `e-${at}` }))
    raw.write(bodies.map((body) => headOf(body) + body.toString('latin1')).join(''))
    const answers = await raw.answers(200)
    expect(answers.every(({ status }) => status === 200)).toBe(true)
    const ids = (await inboxOf(scene.url)).map((row) => row.event_id).sort()
    expect(ids).toEqual(bodies.map((_, at) => `e-${at}`).sort())
  })

  it('is requested with 100 Continue, unless it is too large', async () => {
    await using scene = await openScene()
    const body = eventOf()
    await using raw = await openRaw(scene.ingester.url)
    raw.write(headOf(body, ['Expect: 100-continue', `Content-Length: ${body.length}`]))
    await expect.poll(() => raw.received).toMatch(/^HTTP\/1\.1 100 Continue/)
    raw.write(body)
    expect((await raw.answers(1))[0]!.status).toBe(200)
    await using large = await openRaw(scene.ingester.url)
    large.write(headOf(body, ['Expect: 100-continue', 'Content-Length: 5242881']))
    expect((await large.answers(1))[0]!.status).toBe(413)
    expect(large.received).not.toContain('100 Continue')
    await large.ended
    await using largest = await openRaw(scene.ingester.url)
    largest.write(headOf(body, ['Expect: 100-continue', 'Content-Length: 5242880']))
    await expect.poll(() => largest.received).toMatch(/^HTTP\/1\.1 100 Continue/)
  })

  it('is stored whatever else it expects, and without the name of a host', async () => {
    await using scene = await openScene()
    await using raw = await openRaw(scene.ingester.url)
    const body = eventOf()
    const head = headOf(body, ['Expect: patience', `Content-Length: ${body.length}`])
    raw.write(head.replace(/Host:.*\r\n/, '') + body.toString('latin1'))
    expect((await raw.answers(1))[0]!.status).toBe(200)
  })
})

describe('a connection', () => {
  it('that sends no HTTP, or what no client sends, is answered and closed', async () => {
    await using scene = await openScene()
    const chunked = headOf(eventOf(), ['Transfer-Encoding: chunked'])
    for (const [what, text, status] of [
      ['speaks no HTTP', 'HELO example.org\r\n\r\n', 400],
      ['breaks off its chunks', `${chunked}zz\r\n`, 400],
      ['declares two lengths', headOf(eventOf(), ['Content-Length: 1', 'Content-Length: 2']), 400],
      ['sends endless headers', `POST /webhooks HTTP/1.1\r\nX: ${'x'.repeat(40_000)}`, 431],
      ['sends endless extensions of a chunk', `${chunked}1;${'x'.repeat(40_000)}`, 413],
    ] as const) {
      await using raw = await openRaw(scene.ingester.url)
      raw.write(text)
      await raw.ended
      const body = JSON.parse(raw.received.slice(raw.received.lastIndexOf('\r\n\r\n')))
      expect([what, raw.received.slice(0, 13)]).toEqual([what, `HTTP/1.1 ${status} `])
      expect(body).toEqual({ detail: expect.any(String) })
      expect(scene.recorded.rejected.splice(0)).toContain('malformed')
    }
  })

  it('that sends nothing, or an incomplete request, is closed', async () => {
    await using scene = await openScene({ limits: { headersMs: 200, checkMs: 50 } })
    await using silent = await openRaw(scene.ingester.url)
    await using slowloris = await openRaw(scene.ingester.url)
    slowloris.write('POST /webhooks HTTP/1.1\r\n')
    const dribble = setInterval(() => slowloris.write('X: y\r\n'), 20)
    await Promise.all([silent.ended, slowloris.ended])
    clearInterval(dribble)
    await using other = await openScene({ limits: { idleMs: 200 } })
    await using idle = await openRaw(other.ingester.url)
    const body = eventOf()
    idle.write(headOf(body) + body.toString('latin1'))
    expect((await idle.answers(1))[0]!.status).toBe(200)
    await idle.ended
  })

  it('beyond the limit closes the oldest on which nothing was signed, and none on which something was', async () => {
    await using scene = await openScene({ limits: { connections: 20 } })
    const send = async (raw: RawConnection) => {
      const body = eventOf()
      raw.write(headOf(body) + body.toString('latin1'))
    }
    await using sender = await openRaw(scene.ingester.url)
    await send(sender)
    expect((await sender.answers(1))[0]!.status).toBe(200)
    const silent: RawConnection[] = []
    for (let at = 0; at < 40; at += 1) silent.push(await openRaw(scene.ingester.url))
    await Promise.all(silent.slice(0, 21).map(({ ended }) => ended))
    expect(scene.recorded.rejected).toEqual(Array(21).fill('crowded'))
    await send(sender)
    expect((await sender.answers(2))[1]!.status).toBe(200)
    await using newcomer = await openRaw(scene.ingester.url)
    await send(newcomer)
    expect((await newcomer.answers(1))[0]!.status).toBe(200)
    // Where every connection has carried a signed event, a newcomer is closed.
    for (const raw of silent) await raw[Symbol.asyncDispose]()
    const senders = await Promise.all(Array.from({ length: 18 }, () => openRaw(scene.ingester.url)))
    await Promise.all(senders.map(send))
    for (const raw of senders) expect((await raw.answers(1))[0]!.status).toBe(200)
    await using refused = await openRaw(scene.ingester.url)
    await refused.ended
    for (const raw of senders) await raw[Symbol.asyncDispose]()
    await expect
      .poll(async () => (await post(scene.ingester.url, eventOf()).catch(() => null))?.status)
      .toBe(200)
  })

  it('of a peer that has many closes its oldest, not that of another', async () => {
    await using scene = await openScene({ limits: { connectionsOfPeer: 5 } })
    await using other = await openRaw(scene.ingester.url, '127.0.0.9')
    const greedy: RawConnection[] = []
    for (let at = 0; at < 12; at += 1) greedy.push(await openRaw(scene.ingester.url, '127.0.0.8'))
    await Promise.all(greedy.slice(0, 7).map(({ ended }) => ended))
    const body = eventOf()
    for (const raw of [other, greedy[11]!]) raw.write(headOf(body) + body.toString('latin1'))
    for (const raw of [other, greedy[11]!]) expect((await raw.answers(1))[0]!.status).toBe(200)
    for (const raw of greedy) await raw[Symbol.asyncDispose]()
  })

  it('of a trusted proxy has no limit of its own: the peers are those that it names', async () => {
    const proxies = networksOf(['127.0.0.8'])
    await using scene = await openScene({ proxies, limits: { connectionsOfPeer: 2, bytesInFlight: 73_000 } })
    const body = eventOf({ data: { id: 'p', text: 'x'.repeat(18_000) } })
    const stalled = async (peer: string) => {
      const raw = await openRaw(scene.ingester.url, '127.0.0.8')
      raw.write(headOf(body, [`Content-Length: ${body.length}`, `X-Forwarded-For: ${peer}`]))
      raw.write(body.subarray(0, 17_000))
      return raw
    }
    const first = await stalled('198.51.100.1')
    await expect.poll(() => scene.ingester.inFlight.bytes).toBeGreaterThanOrEqual(17_000)
    const second = await stalled('198.51.100.1')
    expect((await second.answers(1))[0]!.status).toBe(503)
    const third = await stalled('198.51.100.2')
    await expect.poll(() => scene.ingester.inFlight.bytes).toBeGreaterThanOrEqual(34_000)
    for (const raw of [first, third]) {
      raw.write(body.subarray(17_000))
      expect((await raw.answers(1))[0]!.status).toBe(200)
    }
    for (const raw of [first, second, third]) await raw[Symbol.asyncDispose]()
  })

  it('on which garbage follows a valid event answers the event first', async () => {
    await using scene = await openScene()
    const body = eventOf({ id: 'before garbage' })
    await using locked = await openSession({ url: scene.url, purpose: 'tests' })
    await locked.client.query('begin; lock table intake_raw.inbox')
    await using raw = await openRaw(scene.ingester.url)
    const second = eventOf({ id: 'the second before garbage' })
    const both = [body, second].map((each) => headOf(each) + each.toString('latin1')).join('')
    raw.write(`${both}\0\0garbage\r\n\r\n`)
    await using broken = await openRaw(scene.ingester.url)
    const other = eventOf({ id: 'before a broken one' })
    const chunked = headOf(body, ['Transfer-Encoding: chunked'])
    broken.write(`${headOf(other)}${other.toString('latin1')}${chunked}zz\r\n`)
    await expect.poll(() => scene.recorded.rejected).toEqual(['malformed', 'malformed'])
    await locked.client.query('commit')
    for (const [each, statuses] of [
      [raw, ['200', '200', '400']],
      [broken, ['200', '400']],
    ] as const) {
      await each.ended
      expect(each.received.match(/(?<=HTTP\/1\.1 )\d+/g)).toEqual(statuses)
    }
    const stored = (await inboxOf(scene.url)).map((row) => row.event_id)
    expect(stored.sort()).toEqual(['before a broken one', 'before garbage', 'the second before garbage'])
  })
})

describe('more than the limits allow', () => {
  it('is answered 503 with Retry-After, while small ones still fit, and there is room again afterwards', async () => {
    await using scene = await openScene({ limits: { bytesInFlight: 700_000 } })
    const large = (id: string) => eventOf({ id, data: { text: 'x'.repeat(100_000) } })
    const begun = await Promise.all(
      ['127.0.0.1', '127.0.0.2'].map((host) => openRaw(scene.ingester.url, host)),
    )
    for (const [at, raw] of begun.entries()) {
      raw.write(headOf(large(`e-${at}`)) + large(`e-${at}`).subarray(0, 90_000).toString('latin1'))
    }
    await expect.poll(() => scene.ingester.inFlight.bytes).toBeGreaterThan(180_000)
    await using third = await openRaw(scene.ingester.url, '127.0.0.3')
    third.write(headOf(large('one too many')) + large('one too many').toString('latin1'))
    const [refused] = await third.answers(1)
    expect(refused).toMatchObject({ status: 503 })
    expect(refused!.head).toContain('retry-after: 1')
    expect(scene.recorded.rejected).toEqual(['overload clinic'])
    expect((await post(scene.ingester.url, eventOf())).status).toBe(200)
    for (const raw of begun) raw.socket.destroy()
    await expect.poll(() => scene.ingester.inFlight).toMatchObject({ events: 0, bytes: 0 })
    expect((await post(scene.ingester.url, large('again'))).status).toBe(200)
    expect(await inboxOf(scene.url)).toHaveLength(2)
  })

  it('counts received bytes, not declared ones', async () => {
    await using scene = await openScene({ limits: { bytesInFlight: 1_000_000 } })
    const begun = await Promise.all(Array.from({ length: 200 }, () => openRaw(scene.ingester.url)))
    const body = eventOf({ data: { text: 'x'.repeat(60_000) } })
    for (const raw of begun) raw.write(headOf(body) + body.subarray(0, 1).toString('latin1'))
    await expect.poll(() => scene.ingester.inFlight.events).toBe(200)
    expect((await post(scene.ingester.url, body)).status).toBe(200)
    expect(scene.ingester.inFlight.bytes).toBe(200)
    for (const raw of begun) await raw[Symbol.asyncDispose]()
  })

  it('of one team does not affect the other teams', async () => {
    const teams = ['clinic', 'hospital'].map((name, at) => ({ name, teamId: at + 1, secrets: known(SECRET) }))
    await using scene = await openScene({ teams, limits: { eventsInFlight: 8 } })
    const { url } = scene.ingester
    await using locked = await openSession({ url: scene.url, purpose: 'tests' })
    await locked.client.query('begin; lock table intake_raw.inbox')
    const send = (path: string) => post(url, eventOf(), { path })
    const waiting = Array.from({ length: 6 }, () => send('/webhooks/clinic'))
    await expect.poll(() => scene.ingester.inFlight.events).toBe(6)
    expect((await send('/webhooks/clinic')).status).toBe(503)
    const other = send('/webhooks/hospital')
    await expect.poll(() => scene.ingester.inFlight.events).toBe(7)
    expect(scene.recorded.rejected).toEqual(['overload clinic'])
    await locked.client.query('commit')
    for (const { status } of await Promise.all([...waiting, other])) expect(status).toBe(200)
    expect((await send('/webhooks/clinic')).status).toBe(200)
  })

  it('in events is answered 503 too', async () => {
    await using scene = await openScene({ limits: { eventsInFlight: 3 } })
    await using locked = await openSession({ url: scene.url, purpose: 'tests' })
    await locked.client.query('begin; lock table intake_raw.inbox')
    const waiting = Array.from({ length: 3 }, () => post(scene.ingester.url, eventOf()))
    await expect.poll(() => scene.ingester.inFlight.events).toBe(3)
    expect((await post(scene.ingester.url, eventOf())).status).toBe(503)
    await locked.client.query('commit')
    for (const { status } of await Promise.all(waiting)) expect(status).toBe(200)
    expect((await post(scene.ingester.url, eventOf())).status).toBe(200)
  })

  it('in time is answered 408: a body slower than the least rate ends its connection', async () => {
    await using scene = await openScene({ limits: { graceMs: 300, bytesPerSecond: 1_000_000 } })
    const body = eventOf()
    await using stalled = await openRaw(scene.ingester.url)
    stalled.write(headOf(body) + body.subarray(0, 50).toString('latin1'))
    await using refused = await openRaw(scene.ingester.url)
    refused.write(`POST /webhooks HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nunsigned`)
    expect((await stalled.answers(1))[0]!.status).toBe(408)
    await Promise.all([stalled.ended, refused.ended])
    expect(scene.recorded.rejected).toEqual(['slow clinic', 'slow clinic'])
    expect(scene.ingester.inFlight).toMatchObject({ events: 0, bytes: 0 })
    expect((await post(scene.ingester.url, body)).status).toBe(200)
  })
})

describe('closing', () => {
  it('answers and commits current requests, ends idle connections, and accepts no more', async () => {
    await using scene = await openScene()
    await using silent = await openRaw(scene.ingester.url)
    await using idle = await openRaw(scene.ingester.url)
    const first = eventOf()
    idle.write(headOf(first) + first.toString('latin1'))
    await idle.answers(1)
    await using half = await openRaw(scene.ingester.url)
    const body = eventOf({ id: 'half' })
    half.write(headOf(body) + body.subarray(0, 30).toString('latin1'))
    await expect.poll(() => scene.ingester.inFlight.events).toBe(1)
    const sent = Array.from({ length: 50 }, () => post(scene.ingester.url, eventOf()).catch(() => null))
    const closed = scene.ingester.close()
    await Promise.all([idle.ended, silent.ended])
    half.write(body.subarray(30))
    const [answer] = await half.answers(1)
    expect(answer).toMatchObject({ status: 200 })
    expect(answer!.head).toMatch(/connection: close/i)
    await closed
    const stored = (await Promise.all(sent)).filter((each) => each?.status === 200)
    expect(await query(scene.url, 'select count(*)::int from intake_raw.inbox')).toEqual([
      { count: stored.length + 2 },
    ])
    await expect(post(scene.ingester.url, eventOf())).rejects.toThrow()
  })

  it('ends a connection after the answer to a request whose head was arriving', async () => {
    await using scene = await openScene()
    await using raw = await openRaw(scene.ingester.url)
    const body = eventOf()
    // One write, so that the incomplete head has been read when the event is answered.
    raw.write(`${headOf(body)}${body.toString('latin1')}GET /webhooks HTTP/1.1\r\n`)
    await raw.answers(1)
    const closed = scene.ingester.close()
    raw.write('Host: here\r\n\r\n')
    const [, answer] = await raw.answers(2)
    expect(answer).toMatchObject({ status: 405 })
    expect(answer!.head).toMatch(/connection: close/i)
    await closed
  })

  it('does not wait for clients that never finish', async () => {
    await using scene = await openScene({ limits: { closeMs: 200 } })
    await using raw = await openRaw(scene.ingester.url)
    raw.write(headOf(eventOf()))
    await expect.poll(() => scene.ingester.inFlight.events).toBe(1)
    using time = startOwnTime()
    await scene.ingester.close()
    expect(time.milliseconds).toBeLessThan(2_000)
  })
})
