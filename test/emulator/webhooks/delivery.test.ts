import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { eventProblems } from '../../support/openapi.ts'
import type { Loose } from '../caller.ts'
import { answering } from '../receiver.ts'
import { webhookScene } from './scene.ts'

const { here, idle, newPatient, start, subscribe, delivered } = webhookScene()

describe('an event', () => {
  it('is signed over the exact bytes that are sent, with the secret of its configuration', async () => {
    await start()
    const { signature_secret: secret } = await subscribe({ target_url: `${here.receiver.url}?to=a%20b&x` })
    here.emulator.control.createPatient({ first_name: 'Žižek 🙂', last_name: '"\\' })
    await idle()
    const [{ headers, bytes, method, path }] = here.receiver.deliveries as [Loose]
    expect([method, path]).toEqual(['POST', '/hooks?to=a%20b&x'])
    expect(headers['x-service-signature']).toBe(createHmac('sha256', secret).update(bytes).digest('hex'))
    expect(headers['content-type']).toBe('application/json')
    expect(headers['user-agent']).toMatch(/emulator/)
    expect(Number(headers['content-length'])).toBe(bytes.length)
  })

  it('contains the record as its GET returns it, with an id and the time of the change', async () => {
    await start()
    await subscribe()
    const { id, updated_at } = newPatient()
    await idle()
    const [{ event }] = here.receiver.deliveries as [Loose]
    expect(Object.keys(event)).toEqual(['id', 'timestamp', 'event_type', 'source', 'data'])
    expect(event).toMatchObject({ event_type: 'created', source: 'patient' })
    expect(event.data).toEqual((await here.caller.get(`/v2/patients/${id}`)).body)
    expect(event.timestamp >= updated_at).toBe(true)
    expect(Date.parse(event.timestamp) - Date.parse(updated_at)).toBeLessThan(1000)
  })

  it.each(['', 'v2.1'])(
    'of a document has input_fields only if asked for when configured: "%s"',
    async (version) => {
      await start()
      const { id } = await subscribe({}, version === '' ? {} : { 'X-API-VERSION': version })
      // The version of a later request is that of its answer alone.
      const later = { ...here.caller.credentials, ...(version === '' ? { 'X-API-VERSION': 'v2.1' } : {}) }
      await here.caller.send('PATCH', `/v2/webhooks/${id}`, { sources: ['document'] }, later)
      await here.caller.send('PUT', `/v2/webhooks/${id}`, { target_url: here.receiver.url }, later)
      const { documents } = here.emulator.control.world()
      documents.update(documents.slice(0, 1)[0]!.id, (old) => ({ ...old, name: 'Renamed' }))
      await idle()
      const [{ event }] = here.receiver.deliveries as [Loose]
      expect('input_fields' in event.data).toBe(version === 'v2.1')
    },
  )

  it('of every source matches the description', async () => {
    await start()
    await subscribe()
    const world = here.emulator.control.world()
    const { patients, forms, packets, documents, responses, packetResponses } = world
    for (const table of [patients, forms, packets, documents, responses, packetResponses]) {
      const touch = table.update.bind(table) as (id: string, change: (old: object) => object) => object
      touch(table.slice(0, 1)[0]!.id, (old) => ({ ...old, updated_at: world.now() }))
    }
    await idle()
    expect(here.receiver.deliveries).toHaveLength(6)
    for (const { event, bytes } of here.receiver.deliveries) {
      expect([event.source, ...eventProblems(event.source, bytes.toString())]).toEqual([event.source])
    }
  })

  it('is sent only for the types and sources that are chosen, and messages have none', async () => {
    await start()
    await subscribe({ event_types: ['updated'], sources: ['form', 'patient'] })
    const { control } = here.emulator
    const { id } = newPatient()
    control.updatePatient(id, { city: 'Ulm' })
    control.deletePatient(id)
    const form = control.addForm({ name: 'New' })
    control.renameForm(form.id, 'Newer')
    const { messages, packets } = control.world()
    packets.update(packets.slice(0, 1)[0]!.id, (old) => ({ ...old, name: 'x' }))
    messages.update(messages.slice(0, 1)[0]!.id, (old) => ({ ...old }))
    await idle()
    expect(delivered()).toEqual(['patient updated', 'form updated'])
  })

  it('of one team is not sent to another', async () => {
    await start()
    await subscribe()
    const other = here.emulator.environments[0]!.teams[1]!.name
    here.emulator.control.createPatient({ first_name: 'A', last_name: 'B' }, other)
    newPatient()
    await idle()
    await here.emulator.control.webhooks(other).idle()
    expect(here.receiver.deliveries).toHaveLength(1)
  })

  it('has a different id and a different secret for each configuration', async () => {
    await start()
    await subscribe({ target_url: `${here.receiver.url}/1` })
    await subscribe({ target_url: `${here.receiver.url}/2` })
    newPatient()
    await idle()
    const [one, two] = here.receiver.deliveries as [Loose, Loose]
    expect(new Set([one.path, two.path]).size).toBe(2)
    expect(one.event.id).not.toBe(two.event.id)
    expect(one.event.data).toEqual(two.event.data)
    expect(one.headers['x-service-signature']).not.toBe(two.headers['x-service-signature'])
  })
})

describe('a packet', () => {
  const packetOf = (form_index: number | null) => {
    const { packetResponses } = here.emulator.control.world()
    const open = packetResponses.slice(0, 1)[0]!
    packetResponses.update(open.id, (old) => ({ ...old, form_index }))
    return open.id
  }

  it('is reported as updated when it is set up, its members before it, and they can be fetched by then', async () => {
    await start()
    await subscribe()
    const statuses: number[] = []
    here.receiver.answer = async (reply, { event }) => {
      if (event.source === 'packet_response') {
        for (const id of event.data.responses)
          statuses.push((await here.caller.get(`/v2/responses/${id}`)).status)
      }
      reply.writeHead(200).end()
    }
    const { patients, packets } = here.emulator.control.world()
    const patient = patients.slice(0, 1)[0]!.id
    const packet = packets.slice(0, 1)[0]!
    here.emulator.control.staff().send({ patient, packet: packet.id })
    here.emulator.control.advance(2000)
    await expect.poll(() => delivered().includes('packet_response updated')).toBe(true)
    await idle()
    const members = packet.forms.length
    expect(delivered()).toEqual([...Array(members).fill('response created'), 'packet_response updated'])
    expect(here.receiver.deliveries.at(-1)!.event.data).toMatchObject({
      form_index: null,
      is_submitted: false,
    })
    expect(statuses).toEqual(Array(members).fill(200))
  })

  it('is sent once for several unsent steps: with the id of the first, and the time and state of the last', async () => {
    await start()
    await subscribe()
    const open: (() => void)[] = []
    here.receiver.answer = (reply) => void open.push(() => reply.writeHead(200).end())
    for (let at = 0; at < 8; at += 1) newPatient()
    await expect.poll(() => open.length).toBe(8)
    const id = packetOf(1)
    await new Promise((resolve) => setTimeout(resolve, 20))
    const between = here.emulator.control.world().now()
    packetOf(2)
    newPatient()
    packetOf(3)
    here.receiver.answer = answering(200)
    for (const finish of open) finish()
    await idle()
    const events = here.receiver.deliveries.slice(8).map(({ event }) => event)
    expect(events.map(({ source }) => source)).toEqual(['packet_response', 'patient'])
    expect(events[0]).toMatchObject({ event_type: 'updated', data: { id, form_index: 3 } })
    expect(Date.parse(events[0].timestamp)).toBeGreaterThanOrEqual(Date.parse(between))
    packetOf(4)
    await idle()
    expect(here.receiver.deliveries.at(-1)!.event.data.form_index).toBe(4)
    expect(here.receiver.deliveries.at(-1)!.event.id).not.toBe(events[0].id)
  })
})
