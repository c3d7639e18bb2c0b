import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { startEmulator } from '../../../src/emulator/server.ts'
import { SHAPE_NAMES } from '../../../src/emulator/shapes/catalogue.ts'
import { callerOf, type Loose } from '../caller.ts'
import { startReceiver } from '../receiver.ts'

/** What a receiver gets in `shape` when a patient is created and deleted, and the records of it. */
async function deliver(shape: string) {
  await using emulator = await startEmulator({ port: 0, patients: 3, shape })
  await using receiver = await startReceiver()
  const caller = callerOf(emulator)
  const path = shape === 'trailing-slash' ? '/' : ''
  const { text } = await caller.send('POST', `/v2/webhooks${path}`, { target_url: receiver.url })
  const { id } = emulator.control.createPatient({ first_name: 'A', last_name: 'B', email: 'a@example.com' })
  await emulator.control.webhooks().idle()
  const shown = (await caller.get(`/v2/patients/${id}${path}`)).text
  emulator.control.deletePatient(id)
  await emulator.control.webhooks().idle()
  const records = (await caller.get(`/v2/webhooks/events${path}`)).body
  const secret = /"signature_secret":"([^"]+)"/.exec(text)?.[1] ?? ''
  return { id, shown, secret, records, deliveries: receiver.deliveries as Loose[] }
}

describe('a deleted event', () => {
  it.each([
    ['default', (id: string) => expect.objectContaining({ id, first_name: 'A' })],
    ['deleted-id', (id: string) => ({ id })],
    ['deleted-id+uid-ids', (uid: string) => ({ uid })],
    ['deleted-empty', () => ({})],
    ['deleted-null', () => null],
  ])('holds in the shape %s what the shape says, and other events are whole', async (shape, data) => {
    const { id, deliveries } = await deliver(shape)
    const [created, deleted] = deliveries.map(({ event }) => event)
    expect(created.data).toMatchObject({ first_name: 'A' })
    expect(deleted).toMatchObject({ event_type: 'deleted', source: 'patient' })
    expect(deleted.data).toEqual(data(id))
  })
})

describe('a record of an attempt', () => {
  it('has the id of the envelope in the shape event-record-envelope-id, else its own', async () => {
    for (const [shape, same] of [
      ['event-record-envelope-id', true],
      ['default', false],
    ] as const) {
      const { records, deliveries } = await deliver(shape)
      const rows: Loose[] = records.results
      expect(rows.map(({ event_id }) => event_id)).toEqual(deliveries.map(({ event }) => event.id))
      expect(rows.map(({ id, event_id }) => id === event_id)).toEqual([same, same])
    }
  })
})

describe('an event', () => {
  const shapes = SHAPE_NAMES.filter((name) => !['empty-success', 'numeric-ids', 'huge-ids'].includes(name))
  it.each(shapes)(
    'in the shape %s contains what the GET by id returns, signed as it is sent',
    async (shape) => {
      const { shown, secret, deliveries } = await deliver(shape)
      const [{ event, bytes, headers }] = deliveries as [Loose]
      expect(event.data).toEqual(JSON.parse(shown))
      expect(Object.keys(event)).toEqual(['id', 'timestamp', 'event_type', 'source', 'data'])
      expect(headers['x-service-signature']).toBe(createHmac('sha256', secret).update(bytes).digest('hex'))
    },
  )

  it.each(['numeric-ids', 'huge-ids'])(
    'in the shape %s keeps its own id and writes that of the record so',
    async (shape) => {
      const { deliveries } = await deliver(shape)
      const [{ event, bytes }] = deliveries as [Loose]
      expect(event.id).toMatch(/^[0-9a-f-]{36}$/)
      expect(bytes.toString()).toMatch(/"data":\{"id":\d{12,20},/)
    },
  )
})
