import { createHmac } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseFaults } from '../../../src/emulator/faults.ts'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { callerOf, type Loose } from '../caller.ts'
import { answering, type Receiver, startReceiver } from '../receiver.ts'

let emulator: Emulator
let receiver: Receiver
let config: Loose

const start = async (faults: string, seed = 1) => {
  emulator = await startEmulator({ port: 0, patients: 5, responses: 0, faults, seed })
  config = (await callerOf(emulator).send('POST', '/v2/webhooks', { target_url: receiver.url })).body
}
beforeEach(async () => {
  receiver = await startReceiver()
})
afterEach(async () => {
  await emulator.close()
  await receiver.close()
})

const idle = () => emulator.control.webhooks().idle()
const records = () => callerOf(emulator).rows('/v2/webhooks/events')
const newPatients = (count: number) =>
  Array.from({ length: count }, (_, at) =>
    emulator.control.createPatient({ first_name: `P${at}`, last_name: 'L' }),
  )
const names = () => receiver.deliveries.map(({ event }) => event.data.first_name)
const isGenuine = ({ bytes, headers }: Loose) =>
  headers['x-service-signature'] === createHmac('sha256', config.signature_secret).update(bytes).digest('hex')

describe('webhook-duplicate', () => {
  it('sends the same bytes twice at the same moment, and records both', async () => {
    await start('webhook-duplicate')
    const waiting: (() => void)[] = []
    receiver.answer = (reply) => void waiting.push(() => reply.writeHead(200).end())
    newPatients(1)
    await expect.poll(() => receiver.deliveries.length).toBe(2)
    for (const go of waiting) go()
    await idle()
    const [one, two] = receiver.deliveries as [Loose, Loose]
    expect(one.bytes.equals(two.bytes)).toBe(true)
    expect([isGenuine(one), isGenuine(two)]).toEqual([true, true])
    expect((await records()).map(({ attempts }) => attempts).toSorted()).toEqual([1, 2])
  })

  it('does not double the retries', async () => {
    await start('webhook-duplicate')
    receiver.answer = answering(500)
    newPatients(1)
    await idle()
    const planned = (await records()).filter(({ next_retry_at }) => next_retry_at !== null)
    expect(planned).toHaveLength(1)
    emulator.control.advance(5000)
    await expect.poll(() => receiver.deliveries.length).toBe(3)
  })
})

describe('webhook-reorder', () => {
  it('lets the next event overtake each time, and loses none', async () => {
    await start('webhook-reorder')
    for (let at = 0; at < 4; at += 1) {
      newPatients(2)
      await idle()
    }
    expect(names()).toEqual(['P1', 'P0', 'P1', 'P0', 'P1', 'P0', 'P1', 'P0'])
  })

  it('is not overtaken by an earlier event in flight', async () => {
    await start('webhook-reorder@form')
    const finish: (() => void)[] = []
    receiver.answer = (reply) => void finish.push(() => reply.writeHead(200).end())
    newPatients(1)
    await expect.poll(() => finish.length).toBe(1)
    emulator.control.addForm({ name: 'F' })
    finish[0]!()
    receiver.answer = answering(200)
    // Only the form's, which waits for a second at most.
    await expect.poll(() => emulator.control.webhooks().pending, { interval: 5 }).toBe(1)
    newPatients(1)
    await idle()
    const sources = receiver.deliveries.map(({ event }) => event.source)
    expect(sources).toEqual(['patient', 'patient', 'form'])
  })

  it('waits a second at most for an event that never comes', async () => {
    await start('webhook-reorder')
    const before = performance.now()
    newPatients(1)
    await idle()
    expect(performance.now() - before).toBeGreaterThan(950)
    expect(names()).toEqual(['P0'])
  })
})

describe('webhook-delay', () => {
  it('holds an event back while others are sent', async () => {
    await start('webhook-delay@patient=200')
    const before = performance.now()
    newPatients(1)
    emulator.control.addForm({ name: 'F' })
    await idle()
    const [form, patient] = receiver.deliveries as [Loose, Loose]
    expect([form.event.source, patient.event.source]).toEqual(['form', 'patient'])
    expect(patient.at - before).toBeGreaterThan(190)
    expect(Date.parse(patient.event.timestamp)).toBeLessThanOrEqual(Date.parse(form.event.timestamp))
  })
})

describe('webhook-drop', () => {
  it('loses events of one source without a trace', async () => {
    await start('webhook-drop@patient')
    newPatients(3)
    emulator.control.addForm({ name: 'F' })
    await idle()
    expect(receiver.deliveries.map(({ event }) => event.source)).toEqual(['form'])
    expect(await records()).toHaveLength(1)
  })

  it('loses the same events in every run with the same seed, and others with another', async () => {
    const run = async (seed: number) => {
      receiver.deliveries.length = 0
      await start('webhook-drop=0.5', seed)
      newPatients(40)
      await idle()
      await emulator.close()
      return names().toSorted()
    }
    const first = await run(1)
    expect(first.length).toBeGreaterThan(8)
    expect(first.length).toBeLessThan(32)
    expect(await run(1)).toEqual(first)
    expect(await run(2)).not.toEqual(first)
  })
})

describe('webhook-forge', () => {
  it('sends a forged event before the real one, with the same id, which receivers must reject', async () => {
    await start('webhook-forge')
    const [patient] = newPatients(1)
    await idle()
    const [forged, genuine] = receiver.deliveries as [Loose, Loose]
    expect([isGenuine(forged), isGenuine(genuine)]).toEqual([false, true])
    expect(forged.headers['x-service-signature']).toMatch(/^[0-9a-f]{64}$/)
    expect(forged.event).toMatchObject({ id: genuine.event.id, timestamp: genuine.event.timestamp })
    expect(genuine.event.data.last_name).toBe('L')
    // Every text, but no id and no time.
    const texts = ['first_name', 'last_name', 'address', 'address2', 'city', 'state', 'zipcode']
    const forgery = Object.fromEntries(texts.map((name) => [name, 'forged']))
    expect(forged.event.data).toEqual({ ...genuine.event.data, ...forgery, id: patient!.id })
    expect(await records()).toHaveLength(1)
  })
})

describe('webhook-rerender', () => {
  it('sends an acknowledged event again under its old time with new data', async () => {
    await start('webhook-rerender@patient=1:100')
    const waiting: (() => void)[] = []
    receiver.answer = (reply) => void waiting.push(() => reply.writeHead(200).end())
    const [patient] = newPatients(1)
    await expect.poll(() => receiver.deliveries.length).toBe(1)
    emulator.control.setFaults('')
    emulator.control.updatePatient(patient!.id, { last_name: 'Later' })
    await expect.poll(() => receiver.deliveries.length).toBe(2)
    receiver.answer = answering(200)
    for (const go of waiting) go()
    await idle()
    const events = receiver.deliveries.map(({ event }) => event)
    expect(events.map(({ event_type, data }) => [event_type, data.last_name])).toEqual([
      ['created', 'L'],
      ['updated', 'Later'],
      ['created', 'Later'],
    ])
    expect([events[2].id, events[2].timestamp]).toEqual([events[0].id, events[0].timestamp])
    receiver.answer = answering(500)
    emulator.control.setFaults('webhook-rerender=1:1')
    newPatients(1)
    await idle()
    expect(receiver.deliveries).toHaveLength(4)
  })
})

describe('webhook-off', () => {
  it('disables the endpoint after the given number of events, although it still says that it is active', async () => {
    await start('webhook-off=3')
    newPatients(5)
    await idle()
    expect(names()).toHaveLength(3)
    expect(await records()).toHaveLength(3)
    const path = `/v2/webhooks/${config.id}`
    const caller = callerOf(emulator)
    expect((await caller.get(path)).body.is_active).toBe(true)
    emulator.control.setFaults('')
    newPatients(1)
    await idle()
    expect(names()).toHaveLength(3)
    await caller.send('PATCH', path, { is_active: true })
    newPatients(1)
    await idle()
    expect(names()).toHaveLength(4)
  })

  it('drops the retries with it', async () => {
    await start('webhook-off=2')
    receiver.answer = answering(500)
    newPatients(2)
    await idle()
    expect(emulator.control.webhooks().retrying).toBe(2)
    newPatients(1)
    expect(emulator.control.webhooks().retrying).toBe(0)
  })
})

describe('several faults', () => {
  it('lose no event but those they drop', async () => {
    const rest = 'webhook-duplicate=0.3,webhook-reorder=0.3,webhook-forge=0.2,webhook-rerender=0.3:10'
    await start(`${rest},webhook-delay=0.3:20`)
    receiver.answer = (reply, delivery) =>
      void reply
        .writeHead(isGenuine(delivery) ? (receiver.deliveries.length % 7 === 0 ? 503 : 200) : 400)
        .end()
    const ids = newPatients(120).map(({ id }) => id)
    const acknowledged = () =>
      new Set(receiver.deliveries.filter(isGenuine).map(({ event }) => event.data.id)).size
    await idle()
    expect(acknowledged()).toBe(ids.length)
    receiver.answer = answering(200)
    emulator.control.advance(5000)
    await expect.poll(() => emulator.control.webhooks().retrying).toBe(0)
    await idle()
    const succeeded = (await records()).filter(({ status }) => status === 'succeeded')
    expect(new Set(succeeded.map(({ event_id }) => event_id)).size).toBe(ids.length)
  })

  it.each(['webhook-drop@responses', 'webhook-delay=soon', 'webhook-drop=5', 'webhook-forge=0.1:x'])(
    'that make no sense are refused: %s',
    async (spec) => {
      await start('')
      expect(() => parseFaults(spec)).toThrow(RangeError)
    },
  )

  it('of webhooks apply to no request', async () => {
    await start('webhook-delay=5000,webhook-drop')
    expect((await callerOf(emulator).get('/v2/patients')).status).toBe(200)
  })
})
