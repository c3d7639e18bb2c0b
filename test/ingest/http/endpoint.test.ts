/** The endpoint follows its contract: stored and rejected requests, and the answer to each. */
import { createHash } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { SIGNATURE_HEADER, sign } from '../../../src/core/signature.ts'
import { openEndpoint } from '../../../src/ingest/http/endpoint.ts'
import { LIMITS } from '../../../src/ingest/http/in-flight.ts'
import { eventOf, inboxOf, known, openScene, post, query, type Scene, SECRET } from '../support/ingest.ts'

describe('a signed event', () => {
  let scene: Scene
  beforeAll(async () => {
    scene = await openScene()
    return () => scene[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    await query(scene.url, 'truncate intake_raw.inbox')
    for (const recorded of [scene.recorded.stored, scene.recorded.rejected]) recorded.length = 0
  })

  it('is stored with its exact bytes before the answer 200', async () => {
    const body = Buffer.from(
      '{ "id":"e-1",\n "event_type":"updated", "source":"patient","data":{"id":"p-1","name":"Zo\u00eb"} }\n',
    )
    const answer = await post(scene.ingester.url, body)
    expect(answer).toMatchObject({ status: 200, body: { status: 'stored' } })
    const [row, ...others] = await inboxOf(scene.url)
    expect(others).toEqual([])
    expect(row).toMatchObject({
      team_id: 1,
      event_id: 'e-1',
      event_type: 'updated',
      source: 'patient',
      record_id: 'p-1',
      status: 'pending',
    })
    expect(row!.body.equals(body)).toBe(true)
    const [stamped] = await query<{ on_day: boolean; hash: Buffer }>(
      scene.url,
      `select received_on = (received_at at time zone 'UTC')::date and now() - received_at < interval '1 minute' as on_day,
         body_hash as hash from intake_raw.inbox`,
    )
    expect(stamped!.on_day).toBe(true)
    expect(stamped!.hash).toEqual(createHash('sha256').update(body).digest())
  })

  it('that is sent again changes nothing, and is answered 200 each time', async () => {
    const body = eventOf()
    const answers = []
    for (let time = 0; time < 3; time += 1) answers.push(await post(scene.ingester.url, body))
    expect(answers.map(({ status, body }) => [status, body])).toEqual([
      [200, { status: 'stored' }],
      [200, { status: 'duplicate' }],
      [200, { status: 'duplicate' }],
    ])
    expect(await inboxOf(scene.url)).toHaveLength(1)
    expect(scene.recorded.stored).toEqual(['clinic stored', 'clinic duplicate', 'clinic duplicate'])
    const flowing = scene.recorded.logged.filter((line) => line.includes('events flow'))
    expect(flowing).toEqual([expect.stringContaining('"team":"clinic"')])
  })

  it('that is sent again with newer data is stored again', async () => {
    await post(scene.ingester.url, eventOf({ id: 'same', data: { id: 'p', name: 'old' } }))
    await post(scene.ingester.url, eventOf({ id: 'same', data: { id: 'p', name: 'new' } }))
    expect((await inboxOf(scene.url)).map((row) => row.event_id)).toEqual(['same', 'same'])
  })

  it.each([
    ['no Content-Type', {}],
    ['text/plain', { 'content-type': 'text/plain' }],
    ['application/json of another charset', { 'content-type': 'application/json; charset=utf-16' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['a Content-Type that is none', { 'content-type': ';;;=' }],
    ['a Content-Encoding that does not hold', { 'content-encoding': 'gzip' }],
  ])('is stored whatever its headers say: %s', async (_, headers) => {
    const body = eventOf()
    expect((await post(scene.ingester.url, body, { headers })).status).toBe(200)
    const [row] = await inboxOf(scene.url)
    expect(row!.body.equals(body)).toBe(true)
  })

  const hash = (body: Buffer) => createHash('sha256').update(body).digest('hex')
  const nested = (depth: number) =>
    Buffer.from(`{"id":"deep","source":"form","data":${'['.repeat(depth)}${']'.repeat(depth)}}`)
  it.each<[string, Buffer, string, string | null]>([
    ['empty', Buffer.alloc(0), 'unreadable', null],
    ['JSON that is broken off', Buffer.from('{"id":"half'), 'unreadable', null],
    ['no JSON', Buffer.from([0, 255, 254, 1]), 'unreadable', null],
    ['an array', Buffer.from('[{"id":"e"}]'), 'unreadable', null],
    ['without an id', eventOf({ id: undefined }), 'unreadable', 'p-1'],
    ['with an id of NUL', eventOf({ id: 'a\0b' }), 'unreadable', 'p-1'],
    ['with an id that JSON cannot carry', Buffer.from('{"id":9007199254740993}'), 'unreadable', null],
    ['with an id of a lone surrogate', Buffer.from('{"id":"\\ud83d"}'), 'unreadable', null],
    ['with an id that is too long', eventOf({ id: 'x'.repeat(3000) }), 'unreadable', 'p-1'],
    ['with a key twice: the last counts', Buffer.from('{"id":"first","id":"last"}'), 'last', null],
    ['nested 500 deep', nested(500), 'deep', null],
    ['nested a hundred thousand deep', nested(100_000), 'unreadable', null],
    ['of millions of empty arrays', Buffer.alloc(5_242_880, '[],'), 'unreadable', null],
    [
      'large, of few values',
      eventOf({ id: 'large', data: { id: 'p', x: '[{,'.repeat(1_000_000) } }),
      'large',
      'p',
    ],
    [
      'of bytes that are no UTF-8',
      Buffer.from([...Buffer.from('{"id":"e","x":"'), 0xff, 0x22, 0x7d]),
      'e',
      null,
    ],
    [
      'with an id of quotes, backslashes and commas',
      eventOf({ id: 'a"b\\c,{d}', data: { id: 'NULL' } }),
      'a"b\\c,{d}',
      'NULL',
    ],
    ['with a number as id', Buffer.from('{"id":17,"data":{"id":18}}'), '17', '18'],
    ['with a record that is its id', eventOf({ id: 'r', data: 'p-9' }), 'r', 'p-9'],
    ['with a record that has a uid', eventOf({ id: 'r', data: { uid: 'u-9' } }), 'r', 'u-9'],
    ['deleted, without data', eventOf({ id: 'd', event_type: 'deleted', data: null }), 'd', null],
  ])('is stored also when its body is %s', async (_, body, eventId, recordId) => {
    expect(await post(scene.ingester.url, body)).toMatchObject({ status: 200 })
    const [row] = await inboxOf(scene.url)
    expect(row!.event_id).toBe(eventId === 'unreadable' ? `unreadable:${hash(body)}` : eventId)
    expect(row!.record_id).toBe(recordId)
    expect(row!.body.equals(body)).toBe(true)
  })

  it('is stored up to 5,242,880 bytes, and rejected beyond, whether or not its length is declared', async () => {
    const largest = Buffer.alloc(5_242_880, 0x5b)
    expect((await post(scene.ingester.url, largest)).status).toBe(200)
    const larger = Buffer.alloc(5_242_881, 0x5b)
    const answer = await post(scene.ingester.url, larger)
    expect(answer).toMatchObject({ status: 413, body: { detail: expect.any(String) } })
    const chunked = await fetch(`${scene.ingester.url}/webhooks`, {
      method: 'POST',
      duplex: 'half',
      body: new Blob([larger]).stream(),
      headers: { [SIGNATURE_HEADER]: sign(larger, SECRET) },
    } as RequestInit)
    expect(chunked.status).toBe(413)
    expect(await chunked.json()).toEqual({ detail: expect.any(String) })
    expect(await query(scene.url, 'select length(body) from intake_raw.inbox')).toEqual([
      { length: 5_242_880 },
    ])
    expect(scene.recorded.rejected.filter((reason) => reason !== 'malformed')).toEqual(
      Array(2).fill('too_large clinic'),
    )
  })
})

describe('a request', () => {
  let scene: Scene
  beforeAll(async () => {
    scene = await openScene()
    return () => scene[Symbol.asyncDispose]()
  })

  const body = eventOf({ id: 'odd' })
  const right = sign(body, SECRET)
  it.each<[string, Record<string, string>]>([
    ['without a signature', {}],
    ['with an empty signature', { [SIGNATURE_HEADER]: '' }],
    ['with a signature of another secret', { [SIGNATURE_HEADER]: sign(body, 'another') }],
    ['with a signature of other bytes', { [SIGNATURE_HEADER]: sign(Buffer.from(`${body} `), SECRET) }],
    ['with a signature that is cut', { [SIGNATURE_HEADER]: right.slice(0, 63) }],
    ['with a signature that is longer', { [SIGNATURE_HEADER]: `${right}0` }],
    ['with a signature in base64', { [SIGNATURE_HEADER]: Buffer.from(right, 'hex').toString('base64') }],
    ['with a signature behind its algorithm', { [SIGNATURE_HEADER]: `sha256=${right}` }],
    ['with two signatures', { [SIGNATURE_HEADER]: `${right}, ${right}` }],
    ['with characters that look like hex', { [SIGNATURE_HEADER]: `${right.slice(0, 63)}g` }],
    ['with the signature under another name', { 'x-signature': right }],
  ])('%s is answered 400 and leaves nothing', async (_, headers) => {
    const response = await fetch(`${scene.ingester.url}/webhooks`, {
      method: 'POST',
      body: new Uint8Array(body),
      headers,
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toEqual({ detail: expect.any(String) })
    expect(await inboxOf(scene.url)).toEqual([])
  })

  it.each<[string, string, number]>([
    ['POST', '/', 404],
    ['GET', '/webhooks', 405],
    ['PUT', '/webhooks/clinic', 405],
    ['HEAD', '/webhooks', 405],
    ['POST', '/webhooks/nobody', 404],
    ['POST', '/webhooks/clinic/more', 404],
    ['POST', '/webhooks/%E0%A4%A', 404],
    ['POST', `/webhooks/${'x'.repeat(5000)}`, 404],
    ['POST', '/webhooks/north/', 404],
    ['OPTIONS', '/webhooks/', 405],
    ['PROPFIND', '/webhooks/%63linic?a=b', 405],
    ['DELETE', '/anything', 404],
  ])('%s %s is answered with only a detail', async (method, path, status) => {
    const response = await fetch(scene.ingester.url + path, {
      method,
      ...(method === 'POST' ? { body: 'x', headers: { 'content-type': ';;' } } : {}),
    })
    expect(response.status).toBe(status)
    expect(response.headers.get('allow')).toBe(status === 405 ? 'POST' : null)
    const text = await response.text()
    if (method !== 'HEAD') expect(JSON.parse(text)).toEqual({ detail: expect.any(String) })
  })

  it.each<[string, string, string]>([
    ['GET', '/webhooks', 'unknown_team'],
    ['HEAD', '/webhooks/clinic', 'unknown_team'],
    ['PUT', '/webhooks/nobody', 'unknown_team'],
    ['GET', '/', 'unknown_team'],
    ['POST', '/elsewhere', 'unknown_team'],
    ['POST', '/webhooks/nobody', 'unknown_team'],
    ['POST', '/webhooks/clinic', 'signature clinic'],
  ])('%s %s is counted once as rejected: %s', async (method, path, reason) => {
    scene.recorded.rejected.length = 0
    const init = method === 'POST' || method === 'PUT' ? { method, body: 'x' } : { method }
    await (await fetch(scene.ingester.url + path, init)).arrayBuffer()
    expect(scene.recorded.rejected).toEqual([reason])
  })

  it.each(['/webhooks/', '/webhooks?a=b', '/webhooks/clinic/', '/webhooks/%63linic', '/%77ebhooks/clinic'])(
    'for %s is routed to the path without slash, query and encoding',
    async (path) => {
      const { status } = await post(scene.ingester.url, eventOf(), { path })
      expect(status).toBe(200)
    },
  )

  it('with its signature in upper case is stored', async () => {
    const upper = { [SIGNATURE_HEADER]: right.toUpperCase() }
    expect((await post(scene.ingester.url, body, { headers: upper })).status).toBe(200)
  })
})

describe('several teams', () => {
  const teams = [
    { name: 'north', teamId: 1, secrets: known('of north', 'of north before') },
    { name: 'default', teamId: 2, secrets: known('of default') },
    { name: 'new', teamId: 3, secrets: known() },
  ]

  it('each have their path and their secrets; any matching secret is accepted', async () => {
    await using scene = await openScene({ teams })
    const send = async (path: string, secret: string) =>
      (await post(scene.ingester.url, eventOf(), { path, secret })).status
    expect(await send('/webhooks/north', 'of north')).toBe(200)
    expect(await send('/webhooks/north', 'of north before')).toBe(200)
    expect(await send('/webhooks/north', 'of default')).toBe(400)
    expect(await send('/webhooks/default', 'of default')).toBe(200)
    expect(await send('/webhooks', 'of default')).toBe(200)
    expect(await send('/webhooks', 'of north')).toBe(400)
    expect((await inboxOf(scene.url)).map((row) => row.team_id)).toEqual([1, 1, 2, 2])
  })

  it('without a secret are answered 503: the fault is ours', async () => {
    await using scene = await openScene({ teams })
    const answer = await post(scene.ingester.url, eventOf(), { path: '/webhooks/new' })
    expect(answer).toMatchObject({ status: 503, body: { detail: expect.any(String) } })
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(scene.recorded.rejected).toEqual(['no_secret new'])
  })

  it('may send the same bytes: each has its own event', async () => {
    await using scene = await openScene({ teams: [teams[0]!, { ...teams[1]!, secrets: known('of north') }] })
    const body = eventOf()
    const sent = ['/webhooks/north', '/webhooks/default', '/webhooks/default'].map((path) =>
      post(scene.ingester.url, body, { path, secret: 'of north' }),
    )
    const answers = (await Promise.all(sent)).map((answer) => (answer.body as { status: string }).status)
    expect(answers[0]).toBe('stored')
    expect(answers.slice(1).sort()).toEqual(['duplicate', 'stored'])
    expect((await inboxOf(scene.url)).map((row) => row.team_id).sort()).toEqual([1, 2])
  })

  it('have no POST /webhooks if none is called default', async () => {
    await using scene = await openScene({ teams: [teams[0]!, teams[2]!] })
    expect((await post(scene.ingester.url, eventOf(), { secret: 'of north' })).status).toBe(404)
  })
})

it('no log line contains anything of a request', async () => {
  await using scene = await openScene()
  await post(scene.ingester.url, eventOf({ id: 'canary-1', data: { id: 'canary-2', name: 'canary-3' } }))
  await post(scene.ingester.url, Buffer.from('canary-4'), { secret: 'canary-5' })
  await fetch(`${scene.ingester.url}/webhooks/canary-6`, { method: 'POST', body: 'canary-7' })
  await scene.ingester.close()
  expect(scene.recorded.logged.join('')).toContain('refused')
  expect(scene.recorded.logged.join('')).not.toMatch(/canary|p-1|secret of/)
})

it.each([
  ['127.0.0.1', '127.0.0.1'],
  ['0.0.0.0', '127.0.0.1'],
  ['::1', '[::1]'],
])(
  'an endpoint that listens on %s has an address that other processes of the machine can use',
  async (host, shown) => {
    const all = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
    // A machine may be without IPv6.
    if (host === '::1' && !all.some(({ address }) => address === host)) return
    const nothing = () => {}
    const handlers = { teams: [], receive: nothing, elsewhere: nothing, malformed: nothing }
    const endpoint = openEndpoint(LIMITS, { add: nothing }, handlers)
    const url = await endpoint.listen(host, 0)
    try {
      expect(new URL(url).hostname).toBe(shown)
      expect((await fetch(`${url}/elsewhere`)).status).toBe(404)
    } finally {
      await endpoint.close()
    }
  },
)
