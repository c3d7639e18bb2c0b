/** How records are written in the default shape: references to what is there, and addresses that expire. */
import { createHash } from 'node:crypto'
import { beforeEach, describe, expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../../src/emulator/clock.ts'
import type { JsonRecord } from '../../../../src/emulator/http/answer.ts'
import {
  showDocument,
  showEventData,
  showMessage,
  showPacket,
  showPacketResponse,
  showResponse,
} from '../../../../src/emulator/http/resources/show.ts'
import { World } from '../../../../src/emulator/world/world.ts'

const NOON = Date.parse('2026-03-01T12:00:00Z') * 1000
const MINUTE = 60_000_000

let world: World
let service: ServiceClock

beforeEach(() => {
  const clock = { now: () => NOON, sleep: () => new Promise<void>(() => {}) }
  service = new ServiceClock(clock, 1)
  const sizes = { patients: 9, forms: 6, packets: 4, documents: 4, responses: 60 }
  const nobody = { patients: [], forms: [], surveys: [] }
  world = new World(['show'], sizes, nobody, service, new Timeline(service, clock))
})

const showing = (more: object = {}) => ({ world, version: '', nestedForms: false, ...more })
type Loose = Record<string, never>

describe('the address of a file or signature', () => {
  const seen = (part: 'files' | 'e_signatures', field: 'url' | 'image') =>
    world.responses
      .slice(0, 100)
      .flatMap((one) => showResponse(one, showing())[part] as JsonRecord[])
      .map((one) => ({ id: one.id, address: String(one[field]) }))

  it('expires at the full hour after the next, is signed, and is another one every hour', () => {
    const addresses = () => seen('files', 'url')
    const expected = (hour: number) =>
      addresses().map(({ id }) => {
        const expires = Date.parse('2026-03-01T00:00:00Z') / 1000 + hour * 3600
        const signature = createHash('sha1').update(`${id}/${expires}`).digest('hex')
        const address = `https://files.example.com/uploads/${id}?expires=${expires}&signature=${signature}`
        return { id, address }
      })
    expect(addresses().length).toBeGreaterThan(2)
    expect(addresses()).toEqual(expected(14))
    service.advance(59 * MINUTE)
    expect(addresses()).toEqual(expected(14))
    service.advance(MINUTE)
    expect(addresses()).toEqual(expected(15))
  })

  it('of a signature is one of its own, or the picture itself', () => {
    const signatures = seen('e_signatures', 'image')
    const [inline, stored] = [true, false].map((is) =>
      signatures.filter(({ address }) => address.startsWith('data:image/png;base64,') === is),
    )
    expect(Math.min(inline!.length, stored!.length)).toBeGreaterThan(0)
    for (const { id, address } of stored!)
      expect(address.startsWith(`https://files.example.com/signatures/${id}?expires=`)).toBe(true)
    const bytes = Buffer.from(inline![0]!.address.split(',')[1]!, 'base64')
    expect(bytes.subarray(0, 8)).toEqual(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]))
  })
})

describe('a packet', () => {
  it('has its forms that are left, in its order, by name or as a whole', () => {
    const packet = world.packets.slice(0, 4).find(({ forms }) => forms.length > 2)!
    world.forms.remove(packet.forms[1]!)
    const forms = packet.forms.flatMap((id) => world.forms.get(id) ?? [])
    expect(forms).toHaveLength(packet.forms.length - 1)
    expect(showPacket(packet, showing())).toEqual({
      ...packet,
      forms: forms.map(({ id, name }) => ({ id, name })),
    })
    expect(showPacket(packet, showing({ nestedForms: true }))).toEqual({ ...packet, forms })
    const response = world.packetResponses.slice(0, 100).find((one) => one.packet === packet.id)!
    expect(showPacketResponse(response, showing())).toEqual({ ...response, packet: { ...packet, forms } })
    world.packets.remove(packet.id)
    expect(showPacketResponse(response, showing())).toEqual({ ...response, packet: null })
  })
})

it('a document has its input fields for version v2.1 only', () => {
  const document = world.documents.at(0)!
  const { input_fields: _, ...shown } = document
  expect(showDocument(document, showing({ version: 'v2.1' }))).toEqual(document)
  for (const version of ['', 'v2', 'v2.0', 'v2.2'])
    expect(showDocument(document, showing({ version }))).toEqual(shown)
})

it('a message and a response refer to what is there, by id and name, and to nothing where it is gone', () => {
  const named = (table: World['forms'] | World['packets'] | World['documents'], id: string | null) => {
    const found = id === null ? undefined : table.get(id)
    return found === undefined ? null : { id: found.id, name: found.name }
  }
  const check = () => {
    for (const one of world.messages.slice(0, 100)) {
      expect(showMessage(one, showing())).toEqual({
        ...one,
        patient: world.patients.get(one.patient) === undefined ? null : { id: one.patient },
        form: named(world.forms, one.form),
        packet: named(world.packets, one.packet),
        document: named(world.documents, one.document),
      })
    }
    for (const one of world.responses.slice(0, 100)) {
      const { message: _message, packet_response: _packet, form, ...rest } = one
      const { files: _files, e_signatures: _signatures, ...shown } = showResponse(one, showing()) as Loose
      const person = world.patients.get(one.patient)
      expect(shown).toEqual({
        ...(({ files: _f, e_signatures: _e, ...others }) => others)(rest),
        form_id: form,
        form: form === null ? null : { id: form },
        packet: named(world.packets, one.packet),
        document: named(world.documents, one.document),
        patient:
          person === undefined
            ? null
            : (({ id, external_id, first_name, last_name, email }) => ({
                ...{ id, external_id, first_name, last_name, email },
              }))(person),
      })
    }
  }
  check()
  const { messages } = world
  const all = messages.slice(0, 100)
  for (const kind of ['patient', 'form', 'packet', 'document'] as const) {
    const id = all.map((one) => one[kind]).find((one) => one !== null)!
    world[`${kind}s`].remove(id)
  }
  check()
})

it('the data of an event are those of the resource that its source names', () => {
  const { patients, forms, packets, documents, responses, packetResponses } = world
  const rows = { patient: patients, form: forms, packet: packets, document: documents, response: responses }
  for (const [source, table] of Object.entries({ ...rows, packet_response: packetResponses })) {
    const row = table.at(0)!
    const { resource, record } = showEventData(source as 'patient', row, showing())
    expect([resource, record.id]).toEqual([`${source}s`, row.id])
  }
})
