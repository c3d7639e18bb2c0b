/** How the body of a message names the records that it is about, where ids are numbers. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readObject } from '../../../../src/emulator/http/resources/messages.ts'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../../caller.ts'

describe('where ids are numbers, a message', () => {
  let emulator: Emulator
  let caller: Caller
  let ids: Readonly<Record<'patient' | 'form' | 'packet' | 'document', number>>

  beforeAll(async () => {
    emulator = await startEmulator({ port: 0, patients: 3, responses: 5, shape: 'numeric-ids' })
    caller = callerOf(emulator)
    const first = async (resource: string): Promise<number> => (await caller.rows(`/v2/${resource}`))[0].id
    ids = {
      ...{ patient: await first('patients'), form: await first('forms') },
      ...{ packet: await first('packets'), document: await first('documents') },
    }
  })
  afterAll(() => emulator?.close())

  const fields = { preferred_delivery_method: 'email', target_email: 'a@example.com' }
  const later = { ...fields, scheduled_at: '2099-01-02T09:00:00Z' }
  const namedBy = ({ patient, form, packet, document }: Loose) => ({
    ...{ patient: patient.id, form: form.id, packet: packet.id, document: document.id },
  })

  it.each<[string, (id: number) => unknown]>([
    ['a number', (id) => id],
    ['a number as text', (id) => String(id)],
    ['an object with a number as id', (id) => ({ id })],
    ['an object with a number as uid', (id) => ({ uid: id })],
  ])('is made about each record named by %s, and changed to be', async (_title, write) => {
    expect(Object.values(ids).map((id) => typeof id)).toEqual(Array(4).fill('number'))
    const written = Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, write(id)]))
    const made = await caller.send('POST', '/v2/messages', { ...later, ...written })
    expect([made.status, namedBy(made.body)]).toEqual([201, ids])
    const { patient, form } = ids
    const other = (await caller.send('POST', '/v2/messages', { ...later, patient, form })).body
    const changed = await caller.send('PUT', `/v2/messages/${other.id}`, written)
    expect([changed.status, namedBy(changed.body)]).toEqual([200, ids])
  })

  it('that names a number of no record is refused as not found, and one without any id as invalid', async () => {
    const before = emulator.control.world().messages.size
    const { patient } = ids
    const statuses = []
    for (const form of [7, { id: 7 }, true, { id: true }, [ids.form], {}])
      statuses.push((await caller.send('POST', '/v2/messages', { ...later, patient, form })).status)
    expect(statuses).toEqual([404, 404, 400, 400, 400, 400])
    expect(emulator.control.world().messages.size).toBe(before)
  })
})

describe('where ids are numbers, an export', () => {
  it('is found by its number, as text or not; another number is one that nobody has', async () => {
    await using emulator = await startEmulator({ port: 0, patients: 2, responses: 5, shape: 'numeric-ids' })
    const { send, rows } = callerOf(emulator)
    const [{ id }] = await rows('/v2/export-csv')
    const replies = []
    for (const given of [id, String(id), 7, '7', 'x', '', -1, 7.5])
      replies.push((await send('POST', '/v2/export-csv', { id: given })).status)
    expect(replies).toEqual([200, 200, 404, 404, 400, 400, 400, 400])
  })
})

describe('a number in a body', () => {
  it.each([
    ...['9007199254740993', '-9007199254740993', '9999999999999999', '12345678901234567'],
    '1234567890123456789',
  ])('that a double cannot hold keeps its digits: %s', (digits) => {
    const body = Buffer.from(`{"patient": ${digits}, "form": {"id": ${digits}}, "packet": 7}`)
    expect(readObject(body)).toEqual({ patient: digits, form: { id: digits }, packet: 7 })
  })

  it.each([
    '9007199254740991',
    '-9007199254740991',
    '1000000000000000',
    '123456789012345',
    '0.1234567890123456',
  ])('that a double holds stays a number: %s', (digits) => {
    expect(readObject(Buffer.from(`{"patient": ${digits}}`))).toEqual({ patient: Number(digits) })
  })
})
