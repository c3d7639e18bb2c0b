import { createHmac } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Emulator, type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts'
import { eventProblems } from '../support/openapi.ts'
import { type Caller, callerOf, type Loose } from './caller.ts'
import { answering, type Receiver, startReceiver } from './receiver.ts'

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

const subscribe = async (fields: object = {}, headers: Record<string, string> = {}): Promise<Loose> => {
  const body = { target_url: receiver.url, ...fields }
  const reply = await caller.send('POST', '/v2/webhooks', body, { ...caller.credentials, ...headers })
  expect(reply.status).toBe(201)
  return reply.body
}
const idle = () => emulator.control.webhooks().idle()
const told = () => receiver.deliveries.map(({ event }) => `${event.source} ${event.event_type}`)
const attempts = () => caller.rows('/v2/webhooks/events')
const newPatient = () => emulator.control.createPatient({ first_name: 'Ann', last_name: 'Lee' })

describe('an event', () => {
  it('is signed over the exact bytes that are sent, with the secret of its configuration', async () => {
    await start()
    const { signature_secret: secret } = await subscribe()
    emulator.control.createPatient({ first_name: 'Žižek 🙂', last_name: '"\\' })
    await idle()
    const [{ headers, bytes, method, path }] = receiver.deliveries as [Loose]
    expect([method, path]).toEqual(['POST', '/hooks'])
    expect(headers['x-service-signature']).toBe(createHmac('sha256', secret).update(bytes).digest('hex'))
    expect(headers['content-type']).toBe('application/json')
    expect(headers['user-agent']).toMatch(/emulator/)
    expect(Number(headers['content-length'])).toBe(bytes.length)
  })

  it('holds the record as its GET answers it, under an id and the time of the change', async () => {
    await start()
    await subscribe()
    const { id, updated_at } = newPatient()
    await idle()
    const [{ event }] = receiver.deliveries as [Loose]
    expect(Object.keys(event)).toEqual(['id', 'timestamp', 'event_type', 'source', 'data'])
    expect(event).toMatchObject({ event_type: 'created', source: 'patient' })
    expect(event.data).toEqual((await caller.get(`/v2/patients/${id}`)).body)
    expect(event.timestamp >= updated_at).toBe(true)
    expect(Date.parse(event.timestamp) - Date.parse(updated_at)).toBeLessThan(1000)
  })

  it.each(['', 'v2.1'])(
    'of a document has input_fields only if asked for when configured: "%s"',
    async (version) => {
      await start()
      await subscribe({}, version === '' ? {} : { 'X-API-VERSION': version })
      const { documents } = emulator.control.world()
      documents.update(documents.slice(0, 1)[0]!.id, (old) => ({ ...old, name: 'Renamed' }))
      await idle()
      const [{ event }] = receiver.deliveries as [Loose]
      expect('input_fields' in event.data).toBe(version === 'v2.1')
    },
  )

  it('of every source is as described', async () => {
    await start()
    await subscribe()
    const world = emulator.control.world()
    const { patients, forms, packets, documents, responses, packetResponses } = world
    for (const table of [patients, forms, packets, documents, responses, packetResponses]) {
      const touch = table.update.bind(table) as (id: string, change: (old: object) => object) => object
      touch(table.slice(0, 1)[0]!.id, (old) => ({ ...old, updated_at: world.now() }))
    }
    await idle()
    expect(receiver.deliveries).toHaveLength(6)
    for (const { event, bytes } of receiver.deliveries) {
      expect([event.source, ...eventProblems(event.source, bytes.toString())]).toEqual([event.source])
    }
  })

  it('is sent only for the types and sources that are chosen, and messages have none', async () => {
    await start()
    await subscribe({ event_types: ['updated'], sources: ['form', 'patient'] })
    const { control } = emulator
    const { id } = newPatient()
    control.updatePatient(id, { city: 'Ulm' })
    control.deletePatient(id)
    const form = control.addForm({ name: 'New' })
    control.renameForm(form.id, 'Newer')
    const { messages, packets } = control.world()
    packets.update(packets.slice(0, 1)[0]!.id, (old) => ({ ...old, name: 'x' }))
    messages.update(messages.slice(0, 1)[0]!.id, (old) => ({ ...old }))
    await idle()
    expect(told()).toEqual(['patient updated', 'form updated'])
  })

  it('of one team is not told to another', async () => {
    await start()
    await subscribe()
    const other = emulator.environments[0]!.teams[1]!.name
    emulator.control.createPatient({ first_name: 'A', last_name: 'B' }, other)
    newPatient()
    await idle()
    await emulator.control.webhooks(other).idle()
    expect(receiver.deliveries).toHaveLength(1)
  })

  it('has an id of its own for each configuration, and each its own secret', async () => {
    await start()
    await subscribe({ target_url: `${receiver.url}/1` })
    await subscribe({ target_url: `${receiver.url}/2` })
    newPatient()
    await idle()
    const [one, two] = receiver.deliveries as [Loose, Loose]
    expect(new Set([one.path, two.path]).size).toBe(2)
    expect(one.event.id).not.toBe(two.event.id)
    expect(one.event.data).toEqual(two.event.data)
    expect(one.headers['x-service-signature']).not.toBe(two.headers['x-service-signature'])
  })
})

describe('a packet', () => {
  const packetOf = (form_index: number | null) => {
    const { packetResponses } = emulator.control.world()
    const open = packetResponses.slice(0, 1)[0]!
    packetResponses.update(open.id, (old) => ({ ...old, form_index }))
    return open.id
  }

  it('is told as updated when it is set up, its members before it, and they can be fetched by then', async () => {
    await start()
    await subscribe()
    const statuses: number[] = []
    receiver.answer = async (reply, { event }) => {
      if (event.source === 'packet_response') {
        for (const id of event.data.responses) statuses.push((await caller.get(`/v2/responses/${id}`)).status)
      }
      reply.writeHead(200).end()
    }
    const { patients, packets } = emulator.control.world()
    const patient = patients.slice(0, 1)[0]!.id
    const packet = packets.slice(0, 1)[0]!
    emulator.control.staff().send({ patient, packet: packet.id })
    emulator.control.advance(2000)
    await expect.poll(() => told().includes('packet_response updated')).toBe(true)
    await idle()
    const members = packet.forms.length
    expect(told()).toEqual([...Array(members).fill('response created'), 'packet_response updated'])
    expect(receiver.deliveries.at(-1)!.event.data).toMatchObject({ form_index: null, is_submitted: false })
    expect(statuses).toEqual(Array(members).fill(200))
  })

  it('is told once of several steps that were not sent yet: under the first id, with the last time and state', async () => {
    await start()
    await subscribe()
    const open: (() => void)[] = []
    receiver.answer = (reply) => void open.push(() => reply.writeHead(200).end())
    for (let at = 0; at < 8; at += 1) newPatient()
    await expect.poll(() => open.length).toBe(8)
    const id = packetOf(1)
    await new Promise((resolve) => setTimeout(resolve, 20))
    const between = new Date().toISOString()
    packetOf(2)
    newPatient()
    packetOf(3)
    receiver.answer = answering(200)
    for (const finish of open) finish()
    await idle()
    const events = receiver.deliveries.slice(8).map(({ event }) => event)
    expect(events.map(({ source }) => source)).toEqual(['packet_response', 'patient'])
    expect(events[0]).toMatchObject({ event_type: 'updated', data: { id, form_index: 3 } })
    expect(Date.parse(events[0].timestamp)).toBeGreaterThanOrEqual(Date.parse(between))
    packetOf(4)
    await idle()
    expect(receiver.deliveries.at(-1)!.event.data.form_index).toBe(4)
    expect(receiver.deliveries.at(-1)!.event.id).not.toBe(events[0].id)
  })
})

describe('a failed event', () => {
  const WAITS = [5, 30, 120, 600, 3600]

  it('is tried again after 5 s, 30 s, 2 min, 10 min and 1 h, and then given up', async () => {
    await start()
    receiver.answer = answering(500)
    await subscribe()
    newPatient()
    await idle()
    for (const [at, wait] of WAITS.entries()) {
      emulator.control.advance((wait - 1) * 1000)
      await new Promise((resolve) => setTimeout(resolve, 20))
      await idle()
      expect(receiver.deliveries).toHaveLength(at + 1)
      expect(emulator.control.webhooks()).toMatchObject({ pending: 0, retrying: 1 })
      emulator.control.advance(1000)
      await expect.poll(() => receiver.deliveries.length).toBe(at + 2)
      await idle()
    }
    expect(emulator.control.webhooks()).toMatchObject({ pending: 0, retrying: 0 })
    emulator.control.advance(100 * 3_600_000)
    await new Promise((resolve) => setTimeout(resolve, 30))
    expect(receiver.deliveries).toHaveLength(6)
    expect(new Set(receiver.deliveries.map(({ event }) => event.id + event.timestamp)).size).toBe(1)
    const records = await attempts()
    expect(records.map((one) => one.attempts)).toEqual([1, 2, 3, 4, 5, 6])
    for (const [at, wait] of WAITS.entries()) {
      const { created_at, next_retry_at } = records[at]
      expect((Date.parse(next_retry_at) - Date.parse(created_at)) / 1000).toBeCloseTo(wait, 1)
    }
    expect(records[5]).toMatchObject({ next_retry_at: null, response_status_code: 500, status: 'failed' })
  })

  it('comes sooner when the clock runs faster', async () => {
    await start({ timeScale: 100 })
    receiver.answer = answering(503)
    await subscribe()
    newPatient()
    await expect.poll(() => receiver.deliveries.length, { timeout: 3000 }).toBe(3)
    const [first, second, third] = receiver.deliveries as [Loose, Loose, Loose]
    expect(second.at - first.at).toBeGreaterThan(45)
    expect(third.at - second.at).toBeGreaterThan(295)
  })

  it('holds the state of its next attempt, and that before the deletion when the record is gone', async () => {
    await start()
    receiver.answer = answering(500)
    await subscribe({ event_types: ['updated', 'deleted'] })
    const { control } = emulator
    const { id } = newPatient()
    control.updatePatient(id, { city: 'Ulm' })
    await idle()
    control.updatePatient(id, { city: 'Bonn' })
    control.advance(5000)
    await expect.poll(() => receiver.deliveries.length).toBe(3)
    await idle()
    const seen = () => receiver.deliveries.map(({ event }) => event.data.city)
    expect(seen()).toEqual(['Ulm', 'Bonn', 'Bonn'])
    control.deletePatient(id)
    await idle()
    receiver.answer = answering(200)
    control.advance(30_000)
    await expect.poll(() => receiver.deliveries.length).toBe(7)
    await idle()
    expect(seen()).toEqual(['Ulm', 'Bonn', 'Bonn', 'Bonn', 'Bonn', 'Bonn', 'Bonn'])
    expect(told().filter((what) => what === 'patient deleted')).toHaveLength(2)
  })

  it.each([
    [404, 'answered 404'],
    [302, 'answered 302'],
    [500, 'answered 500'],
  ])('is one that was answered %i, and no redirect is followed', async (status, error) => {
    await start()
    receiver.answer = (reply) => reply.writeHead(status, { location: `${receiver.url}/elsewhere` }).end()
    const { id } = await subscribe()
    newPatient()
    await idle()
    expect(receiver.deliveries).toHaveLength(1)
    expect(await attempts()).toMatchObject([
      { webhook_config: id, status: 'failed', response_status_code: status, error },
    ])
  })

  it.each([200, 201, 202, 204, 299])('is none that was answered %i', async (status) => {
    await start()
    receiver.answer = answering(status)
    await subscribe()
    newPatient()
    await idle()
    expect(await attempts()).toMatchObject([
      { status: 'succeeded', response_status_code: status, error: null, next_retry_at: null },
    ])
    expect(emulator.control.webhooks().retrying).toBe(0)
  })

  it('is one whose receiver takes too long, is gone, or hangs up', async () => {
    await start({ webhookTimeoutMs: 100 })
    receiver.answer = () => undefined
    await subscribe()
    newPatient()
    await idle()
    receiver.answer = (reply) => reply.destroy()
    newPatient()
    await idle()
    await receiver.close()
    newPatient()
    await idle()
    receiver = await startReceiver()
    const errors = (await attempts()).map(({ error, response_status_code }) => [error, response_status_code])
    expect(errors).toEqual([
      ['timeout', null],
      ['connection reset', null],
      ['connection refused', null],
    ])
  })

  it('is none whose receiver acknowledged and then never ended its answer', async () => {
    await start({ webhookTimeoutMs: 100 })
    receiver.answer = (reply) => reply.writeHead(200).write('…')
    await subscribe()
    newPatient()
    await idle()
    expect(await attempts()).toMatchObject([{ status: 'succeeded', response_status_code: 200 }])
  })
})

describe('a receiver', () => {
  it('that is slow holds up no other configuration, and has no more than eight at once', async () => {
    await start()
    await using slow = await startReceiver()
    slow.answer = () => undefined
    await subscribe({ target_url: slow.url })
    await subscribe()
    for (let at = 0; at < 30; at += 1) newPatient()
    await expect.poll(() => receiver.deliveries.length).toBe(30)
    expect(slow.deliveries).toHaveLength(8)
    expect(slow.connections).toBe(8)
    expect(emulator.control.webhooks().pending).toBe(30)
  })

  it('gets 2,000 events in the order of the changes, over a few connections, and none is lost', async () => {
    await start()
    await subscribe()
    const ids = Array.from({ length: 2000 }, () => newPatient().id)
    await idle()
    const came = receiver.deliveries.map(({ event }) => event.data.id)
    expect(new Set(came)).toEqual(new Set(ids))
    expect(came).toHaveLength(2000)
    for (const [at, id] of came.entries()) expect(Math.abs(ids.indexOf(id) - at)).toBeLessThan(8)
    expect(receiver.connections).toBeLessThanOrEqual(8)
  })

  it('is left in peace as soon as the emulator ends, whatever is in flight', async () => {
    await start()
    receiver.answer = () => undefined
    await subscribe()
    for (let at = 0; at < 20; at += 1) newPatient()
    await expect.poll(() => receiver.deliveries.length).toBe(8)
    const before = performance.now()
    await emulator.close()
    expect(performance.now() - before).toBeLessThan(1000)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(receiver.deliveries).toHaveLength(8)
  })
})

describe('a configuration', () => {
  it('that is deleted gets nothing more: no events, no retries, nothing that was queued', async () => {
    await start()
    receiver.answer = answering(500)
    const { id } = await subscribe()
    newPatient()
    await idle()
    const open: (() => void)[] = []
    receiver.answer = (reply) => void open.push(() => reply.writeHead(500).end())
    for (let at = 0; at < 12; at += 1) newPatient()
    await expect.poll(() => open.length).toBe(8)
    expect((await caller.send('DELETE', `/v2/webhooks/${id}`)).status).toBe(204)
    for (const finish of open) finish()
    newPatient()
    await idle()
    emulator.control.advance(10_000_000)
    await new Promise((resolve) => setTimeout(resolve, 30))
    expect(receiver.deliveries).toHaveLength(9)
    expect(emulator.control.webhooks()).toMatchObject({ pending: 0, retrying: 0 })
    expect((await attempts()).map(({ next_retry_at }) => next_retry_at === null)).toEqual([
      false,
      ...Array(8).fill(true),
    ])
  })

  it('that is switched off loses what happens meanwhile, and what waited for a retry', async () => {
    await start()
    receiver.answer = answering(500)
    const { id } = await subscribe()
    newPatient()
    await idle()
    await caller.send('PATCH', `/v2/webhooks/${id}`, { is_active: false })
    newPatient()
    receiver.answer = answering(200)
    await caller.send('PATCH', `/v2/webhooks/${id}`, { is_active: true })
    emulator.control.advance(10_000)
    const last = newPatient()
    await idle()
    expect(receiver.deliveries.map(({ event }) => event.data.id).slice(1)).toEqual([last.id])
  })

  it('that moves to another address has its retries sent there', async () => {
    await start()
    receiver.answer = answering(500)
    const { id } = await subscribe()
    newPatient()
    await idle()
    await caller.send('PATCH', `/v2/webhooks/${id}`, { target_url: `${receiver.url}/new` })
    emulator.control.advance(5000)
    await expect.poll(() => receiver.deliveries.map(({ path }) => path)).toEqual(['/hooks', '/hooks/new'])
  })
})
