import { createHmac } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Emulator, type EmulatorOptions, startEmulator } from '../../../src/emulator/server.ts'
import { AttemptLog, type AttemptRecord, KEPT } from '../../../src/emulator/webhooks/attempt.ts'
import { problemsOf } from '../../support/openapi.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'
import { answering, type Receiver, startReceiver } from '../receiver.ts'

let emulator: Emulator
let caller: Caller
let receiver: Receiver

const start = async (options: EmulatorOptions = {}) => {
  emulator = await startEmulator({ port: 0, patients: 20, responses: 40, ...options })
  caller = callerOf(emulator)
}
beforeEach(async () => {
  receiver = await startReceiver()
})
afterEach(async () => {
  await emulator.close()
  await receiver.close()
})

const subscribe = async (fields: object = {}): Promise<Loose> =>
  (await caller.send('POST', '/v2/webhooks', { target_url: receiver.url, ...fields })).body
const idle = () => emulator.control.webhooks().idle()
const newPatient = () => emulator.control.createPatient({ first_name: 'Ann', last_name: 'Lee' })
const test = (id: string) => caller.send('POST', '/v2/webhooks/events/test', { id })

describe('the list of delivery attempts', () => {
  it('has one record for each attempt, oldest first, page by page, as described', async () => {
    await start()
    await subscribe()
    for (let at = 0; at < 25; at += 1) newPatient()
    await idle()
    const page = await caller.get('/v2/webhooks/events?page_size=10')
    expect(problemsOf({ method: 'GET', url: '/v2/webhooks/events?page_size=10', ...page })).toEqual([])
    expect(page.body).toMatchObject({ count: 25, previous: null })
    const rows = await caller.rows('/v2/webhooks/events?page_size=10')
    expect(new Set(rows.map(({ id }) => id)).size).toBe(25)
    const sent = receiver.deliveries.map(({ event }) => event.id)
    expect(new Set(rows.map(({ event_id }) => event_id))).toEqual(new Set(sent))
    const stamps = rows.map(({ created_at }) => Date.parse(created_at))
    expect(stamps).toEqual(stamps.toSorted((a, b) => a - b))
  })

  it('can be filtered by configuration, status, source and type', async () => {
    await start()
    const good = await subscribe({ sources: ['patient'], target_url: receiver.url.replace('http', 'HTTP') })
    const bad = await subscribe({ target_url: `${receiver.url}/bad`, event_types: ['created'] })
    receiver.answer = (reply, { path }) => reply.writeHead(path === '/hooks' ? 200 : 500).end()
    const { control } = emulator
    control.updatePatient(newPatient().id, { city: 'Ulm' })
    control.addForm({ name: 'New' })
    await idle()
    const count = async (query: string) => (await caller.get(`/v2/webhooks/events?${query}`)).body.count
    expect(await count('')).toBe(4)
    expect(await count(`webhook_config=${good.id}`)).toBe(2)
    expect(await count(`webhook_config=${good.id.toUpperCase()}`)).toBe(2)
    expect(await count(`webhook_config=${bad.id}&source=form`)).toBe(1)
    expect(await count('webhook_config=nobody')).toBe(0)
    expect(await count('status=failed')).toBe(2)
    expect(await count('status=succeeded&event_type=updated')).toBe(1)
    await caller.send('DELETE', `/v2/webhooks/${bad.id}`)
    expect(await count(`webhook_config=${bad.id}`)).toBe(2)
  })

  it.each(['cursor', 'limit-offset', 'newest-first', 'bare-array'])(
    'can be paged in the shape %s',
    async (shape) => {
      await start({ shape, pageSize: 7 })
      await subscribe()
      for (let at = 0; at < 20; at += 1) newPatient()
      await idle()
      const rows: Loose[] = []
      for (let next: string | null = '/v2/webhooks/events'; next !== null; ) {
        const { body }: Loose = await caller.get(next)
        rows.push(...(Array.isArray(body) ? body : body.results))
        next = body.next ?? null
      }
      expect(rows).toHaveLength(20)
      expect(new Set(rows.map(({ id }) => id)).size).toBe(20)
    },
  )

  it('keeps the newest, and continues after a cursor whose record is gone', async () => {
    await start()
    const log = new AttemptLog()
    const add = (count: number) => {
      for (let at = 0; at < count; at += 1) log.add({ attempts: 1 } as AttemptRecord)
    }
    add(KEPT / 2)
    const { next } = log.listing().scan(0, 10)
    expect(next).toBe(10)
    add(KEPT)
    expect(log.listing().size).toBe(KEPT)
    const on = log.listing().scan(next!, 10)
    expect([on.rows.length, on.next]).toEqual([10, KEPT / 2 + 10])
    expect(log.listing().scan(on.next!, KEPT).next).toBeNull()
    expect(log.listing().scan(2 * KEPT, 10)).toEqual({ rows: [], next: null })
  })
})

describe('the test of a configuration', () => {
  it('sends one signed event of a chosen source and returns the answer of the receiver', async () => {
    await start()
    const { id, signature_secret: secret } = await subscribe({ sources: ['form', 'patient'] })
    const reply = await test(id)
    const [{ event, bytes, headers }] = receiver.deliveries as [Loose]
    expect(reply).toMatchObject({
      status: 200,
      body: { id: event.id, status: 'succeeded', response_status_code: 200, error: null },
    })
    expect(problemsOf({ method: 'POST', url: '/v2/webhooks/events/test', ...reply })).toEqual([])
    expect(headers['x-service-signature']).toBe(createHmac('sha256', secret).update(bytes).digest('hex'))
    expect(event).toMatchObject({ event_type: 'created', source: 'form' })
    expect(event.data.id).toBe(emulator.control.world().forms.at(0)!.id)
    expect(event.data).toEqual((await caller.get(`/v2/forms/${event.data.id}`)).body)
    expect((await caller.rows('/v2/webhooks/events'))[0]).toMatchObject({ event_id: event.id, attempts: 1 })
  })

  it.each([
    ['patient', 'patients'],
    ['form', 'forms'],
    ['packet', 'packets'],
    ['document', 'documents'],
    ['response', 'responses'],
    ['packet_response', 'packetResponses'],
  ] as const)('sends the oldest record of the source %s', async (source, table) => {
    await start({ packets: 3 })
    const { id } = await subscribe({ sources: [source] })
    await test(id)
    const [{ event }] = receiver.deliveries as [Loose]
    expect([event.source, event.data.id]).toEqual([
      source,
      emulator.control.world()[table].slice(0, 1)[0]!.id,
    ])
  })

  it('reports a failure without a retry, and works for a disabled configuration', async () => {
    await start()
    receiver.answer = answering(418)
    const { id } = await subscribe({ is_active: false })
    const failed = { status: 'failed', response_status_code: 418, error: 'answered 418' }
    expect((await test(id)).body).toMatchObject(failed)
    await receiver.close()
    expect((await test(id)).body).toMatchObject({ response_status_code: null, error: 'connection refused' })
    emulator.control.advance(10_000_000)
    expect(emulator.control.webhooks()).toMatchObject({ pending: 0, retrying: 0 })
    const records = await caller.rows('/v2/webhooks/events')
    expect(records.map(({ next_retry_at }) => next_retry_at)).toEqual([null, null])
  })

  it.each(['patient', 'form', 'packet', 'document', 'response', 'packet_response'])(
    'sends an event of the source %s also where no record of it exists',
    async (source) => {
      await start({ patients: 0, forms: 0, packets: 0, documents: 0, responses: 0 })
      const { id } = await subscribe({ sources: [source] })
      expect((await test(id)).body.status).toBe('succeeded')
      expect(receiver.deliveries[0]!.event.data.id).toMatch(/^[0-9a-f-]{36}$/)
    },
  )
})

describe('pending work', () => {
  it('can be read from another process', async () => {
    await start()
    receiver.answer = answering(500)
    for (const path of ['one', 'other']) await subscribe({ target_url: `${receiver.url}/${path}` })
    newPatient()
    await idle()
    const ask = async (query = '') => caller.get(`/_control/webhooks${query}`, {})
    expect((await ask()).body).toEqual({ pending: 0, retrying: 2 })
    expect((await ask('?team=Harbour%20Practice')).body).toEqual({ pending: 0, retrying: 0 })
    expect((await ask('?team=nobody')).status).toBe(400)
  })
})
