import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { FAULTS, parseFaults } from '../../src/emulator/faults.ts'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { type Caller, callerOf } from './caller.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 50, pageSize: 10 })
  caller = callerOf(emulator)
})
afterEach(() => emulator.control.setFaults(''))
afterAll(() => emulator.close())

const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id)
const page = (number: number) => caller.get(`/v2/patients?page=${number}`)

describe('a fault of the answer', () => {
  it.each([
    ['throttle=3', { status: 429 }],
    ['throttle-silent', { status: 429, body: { detail: 'Request was throttled.' } }],
    ['http-500', { status: 500, body: { detail: 'Internal server error.' } }],
    ['http-503', { status: 503 }],
    ['html-502', { status: 502, body: undefined }],
    ['html-504', { status: 504, body: undefined }],
    ['html-200', { status: 200, body: undefined }],
    ['empty-body', { status: 200, text: '' }],
    ['cut-json', { status: 200, body: undefined }],
    ['corrupt-json', { status: 200, body: undefined }],
  ])('%s is what the caller gets', async (spec, expected) => {
    emulator.control.setFaults(spec)
    const reply = await page(1)
    expect(reply).toMatchObject(expected)
    const [type] = (reply.headers.get('content-type') ?? '').split(';')
    const isHtml = spec.startsWith('html')
    expect([type, reply.text.startsWith('<!doctype html>')]).toEqual([
      ...[isHtml ? 'text/html' : 'application/json', isHtml],
    ])
  })

  it.each([
    ['throttle', 429, 'Request was throttled. Expected available in 1 seconds.', '1'],
    ['throttle=2.5', 429, 'Request was throttled. Expected available in 3 seconds.', '3'],
    ['throttle-burst=1', 429, 'Request was throttled. Expected available in 1 seconds.', '1'],
    ['throttle-silent', 429, 'Request was throttled.', null],
    ['http-500', 500, 'Internal server error.', null],
    ['http-503=2', 503, 'Service unavailable.', '2'],
  ])(
    '%s has a body of nothing but a detail, as errors of the service do',
    async (spec, status, detail, wait) => {
      emulator.control.setFaults(spec)
      const reply = await page(1)
      expect([reply.status, reply.headers.get('retry-after')]).toEqual([status, wait])
      expect(reply.body).toEqual({ detail })
    },
  )

  it.each(['reset', 'truncate'])('%s ends the connection', async (spec) => {
    emulator.control.setFaults(spec)
    await expect(page(1)).rejects.toThrow()
  })

  it('hang never answers', async () => {
    emulator.control.setFaults('hang')
    const url = `${caller.baseUrl}/v2/patients`
    const signal = AbortSignal.timeout(200)
    await expect(fetch(url, { headers: caller.credentials, signal })).rejects.toThrow(/timeout/)
  })

  it('slow and drip answer late, and in full', async () => {
    const whole = await page(1)
    for (const spec of ['slow=150', 'drip=20']) {
      emulator.control.setFaults(spec)
      const start = performance.now()
      expect((await page(1)).body).toEqual(whole.body)
      expect(performance.now() - start).toBeGreaterThan(140)
    }
  })

  it('invalid-utf8 puts one byte into a text and leaves it JSON', async () => {
    emulator.control.setFaults('invalid-utf8')
    const { status, body, text } = await page(1)
    expect(status).toBe(200)
    expect(text).toContain('\ufffd')
    expect(body.results).toHaveLength(10)
  })

  it('redirect and next-elsewhere point to the other environment, which notices a caller that follows them', async () => {
    emulator.control.setFaults('redirect=other-origin')
    const { status, headers } = await page(2)
    const elsewhere = emulator.environments[1]!.base_url
    expect({ status, location: headers.get('location') }).toEqual({
      status: 302,
      location: `${elsewhere}/v2/patients?page=2`,
    })
    emulator.control.setFaults('redirect=slash')
    expect((await page(2)).headers.get('location')).toBe('/v2/patients/?page=2')
    emulator.control.setFaults('next-elsewhere')
    const { next } = (await page(2)).body
    expect(next).toBe(`${elsewhere}/v2/patients?page=3`)
    await fetch(next, { headers: caller.credentials })
    const seen = emulator.control
      .requests()
      .filter((one) => one.environment === 'sandbox' && one.withCredentials)
    expect(seen).toHaveLength(1)
    const other = await callerOf(emulator, 1).get('/v2/forms?page_size=5')
    expect(other.body.next).toBe(`${emulator.environments[0]!.base_url}/v2/forms?page_size=5&page=2`)
  })

  it('clock-skew sets the Date header and the stamps of records wrong', async () => {
    emulator.control.setFaults('clock-skew=-7200')
    const { body, headers } = await caller.send('POST', '/v2/patients', { first_name: 'A', last_name: 'B' })
    for (const time of [body.created_at, headers.get('date')]) {
      expect((Date.now() - Date.parse(time)) / 1000).toBeCloseTo(7200, -2)
    }
    emulator.control.setFaults('')
    const before = Date.now() - 2000
    expect(Date.parse((await page(1)).headers.get('date')!)).toBeGreaterThanOrEqual(before)
    await caller.send('DELETE', `/v2/patients/${body.id}`)
  })
})

describe('a fault of the list', () => {
  it('repeat-page sends the rows of the page before', async () => {
    const before = await page(2)
    emulator.control.setFaults('repeat-page')
    expect((await page(3)).body.results).toEqual(before.body.results)
  })

  it('next-loop points to the page itself', async () => {
    emulator.control.setFaults('next-loop')
    expect((await page(2)).body.next).toBe(`${caller.baseUrl}/v2/patients?page=2`)
  })

  it('shift-rows repeats a row or skips one between pages', async () => {
    const all = idsOf(await caller.rows('/v2/patients'))
    emulator.control.setFaults('shift-rows')
    const shifted = idsOf(await caller.rows('/v2/patients'))
    expect(new Set(shifted).size).toBeLessThan(all.length)
    expect(shifted.some((id, at) => shifted.indexOf(id) !== at)).toBe(true)
  })

  it('duplicate-rows, drop-rows and wrong-count do what they say', async () => {
    emulator.control.setFaults('duplicate-rows')
    expect((await page(1)).body.results).toHaveLength(11)
    emulator.control.setFaults('drop-rows')
    expect((await page(1)).body.results).toHaveLength(9)
    emulator.control.setFaults('wrong-count=-3')
    expect((await page(1)).body.count).toBe(47)
  })
})

describe('faults', () => {
  it('apply to the same requests in every run with the same seed', async () => {
    const run = async () => {
      await using one = await startEmulator({ port: 0, patients: 1, faults: 'http-500=0.3,html-502=0.2' })
      const statuses: number[] = []
      for (let at = 0; at < 60; at += 1) statuses.push((await callerOf(one).get('/v2/patients')).status)
      return statuses
    }
    const statuses = await run()
    expect(await run()).toEqual(statuses)
    expect(new Set(statuses)).toEqual(new Set([200, 500, 502]))
  })

  it('can apply to one resource, or only to the next request', async () => {
    emulator.control.setFaults('http-500@forms')
    expect([(await page(1)).status, (await caller.get('/v2/forms')).status]).toEqual([200, 500])
    emulator.control.setFaults('')
    emulator.control.failNext('/v2/patients', 'html-502')
    expect((await caller.get('/v2/forms')).status).toBe(200)
    expect([(await page(1)).status, (await page(1)).status]).toEqual([502, 200])
  })

  it('of the next requests are as many as said, begin with the path, and come before the others', async () => {
    emulator.control.setFaults('html-502')
    emulator.control.failNext('/v2/patients', 'http-500', 2)
    emulator.control.failNext('/v2/patients/', 'throttle-silent')
    const statuses = [(await caller.get('/v2/forms')).status]
    for (let nth = 0; nth < 3; nth += 1) statuses.push((await page(1)).status)
    statuses.push((await caller.get('/v2/patients/x')).status)
    expect(statuses).toEqual([502, 500, 500, 502, 429])
  })

  it('of the next request are its only ones, also where others would come before them', async () => {
    emulator.control.setFaults('reset,http-500,drop-rows')
    emulator.control.failNext('/v2/patients', 'html-502')
    emulator.control.failNext('/v2/patients', 'wrong-count=2')
    expect((await page(1)).status).toBe(502)
    const { status, body } = await page(1)
    expect([status, body.count, body.results.length]).toEqual([200, 52, 10])
    await expect(page(1)).rejects.toThrow()
  })

  it('can be set from another process, and do not change if the specification is invalid', async () => {
    const set = (faults: unknown) => caller.send('POST', '/_control/faults', { faults }, {})
    expect((await set('slow=0.5:10,wrong-count=2,webhook-drop@form=0.1,reset@patients=0')).body).toEqual({
      faults: ['slow=0.5:10', 'wrong-count=1:2', 'webhook-drop@form=0.1', 'reset@patients=0'],
    })
    expect(await set('nonsense')).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining('nonsense') },
    })
    expect((await caller.get('/_control/faults', {})).body).toEqual({
      faults: ['slow=0.5:10', 'wrong-count=1:2', 'webhook-drop@form=0.1', 'reset@patients=0'],
    })
  })

  it.each([
    'boom',
    'http-500=2',
    'slow=x',
    'slow=2:10',
    'redirect=home',
    'clock-skew=soon',
    'http-500=0.1:x',
    'slow=0.5:',
    'slow=0.5: ',
    'wrong-count=1:',
    'redirect=0.5:',
  ])('that make no sense are refused: %s', (spec) => {
    expect(() => parseFaults(spec)).toThrow(RangeError)
  })

  it('are all known by name', () => {
    for (const name of Object.keys(FAULTS))
      expect(parseFaults(name)).toMatchObject([{ name, probability: 1 }])
  })
})
