/** The content of events of each source, in each shape: what the GET by id returns, or a forgery of it. */
import { describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { SHAPE_NAMES, shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import { type Rendering, Subjects, writeEvent, writeForged } from '../../../src/emulator/webhooks/envelope.ts'
import type { EventSource } from '../../../src/emulator/world/world.ts'
import { callerOf, type Loose } from '../caller.ts'
import { stillClock } from '../still-clock.ts'

const SIZES = { port: 0, clock: stillClock, patients: 5, forms: 4, packets: 1, documents: 1, responses: 20 }
const TABLES = [
  ['patient', 'patients'],
  ['form', 'forms'],
  ['packet', 'packets'],
  ['document', 'documents'],
  ['response', 'responses'],
  ['packet_response', 'packetResponses'],
] as const

function eventsOf(emulator: Emulator, shape: string, version: string) {
  const world = emulator.control.world()
  const subjects = new Subjects(world)
  const rendering: Rendering = { world, subjects, version, shape: shapeNamed(shape, '1') }
  return TABLES.flatMap(([source, table]) =>
    world[table].slice(0, 3).map((row) => {
      const event = { id: 'e', type: 'updated', subject: subjects.retain(source, row), at: 0 } as const
      const [text, forged] = [writeEvent, writeForged].map((write) => write(event, rendering).toString())
      return { source, table, id: row.id, text: text!, forged: forged! }
    }),
  )
}

/** The id as the shape writes it in a path. */
const pathId = (shape: string, id: string) => shapeNamed(shape, '1').idText(id)

describe.each(['default', ...SHAPE_NAMES, 'nested-forms+question-type-string+uid-ids'])(
  'an event in the shape %s',
  (shape) => {
    it('contains of each source what the GET by id returns, in either version', async () => {
      await using emulator = await startEmulator({ ...SIZES, shape })
      const { get, credentials } = callerOf(emulator)
      const slash = shape === 'trailing-slash' ? '/' : ''
      for (const version of ['', 'v2.1']) {
        const headers = version === '' ? credentials : { ...credentials, 'X-API-VERSION': version }
        for (const { source, table, id, text } of eventsOf(emulator, shape, version)) {
          if (source === 'packet_response') continue
          const shown = await get(`/v2/${table}/${pathId(shape, id)}${slash}`, headers)
          const envelope = { id: 'e', timestamp: '1970-01-01T00:00:00Z', event_type: 'updated', source }
          expect(text).toBe(`${JSON.stringify(envelope).slice(0, -1)},"data":${shown.text}}`)
        }
      }
    })
  },
)

it('of a packet response contains the packet with whole forms, in every shape of packets', async () => {
  await using emulator = await startEmulator(SIZES)
  const { forms } = emulator.control.world()
  for (const shape of ['default', 'nested-forms', 'summary-lists']) {
    const all = eventsOf(emulator, shape, '').filter(({ source }) => source === 'packet_response')
    expect(all.length).toBeGreaterThan(0)
    for (const { text } of all)
      for (const form of JSON.parse(text).data.packet.forms) expect(form).toEqual(forms.get(form.id))
  }
})

it.each<[string, Readonly<Record<string, readonly string[]>>]>([
  [
    'default',
    {
      patient: ['id', 'external_id', 'created_at', 'updated_at'],
      form: ['id', 'created_at', 'updated_at'],
      response: ['id', 'form_id', 'created_at', 'updated_at', 'submitted_at'],
      packet_response: ['id', 'created_at', 'updated_at', 'submitted_at'],
    },
  ],
  [
    'references-as-siblings+uid-ids',
    {
      patient: ['uid', 'external_id', 'created_at', 'updated_at'],
      response: [
        ...['uid', 'patient_id', 'form_id', 'packet_id', 'document_id'],
        ...['created_at', 'updated_at', 'submitted_at'],
      ],
    },
  ],
])('a forgery in the shape %s changes every text but ids and times', async (shape, kept) => {
  await using emulator = await startEmulator(SIZES)
  for (const { source, text, forged } of eventsOf(emulator, shape, '')) {
    const [genuine, other] = [JSON.parse(text), JSON.parse(forged)] as [Loose, Loose]
    if (kept[source] === undefined) continue
    const expected = Object.entries(genuine.data).map(([name, value]) => [
      name,
      typeof value !== 'string' || kept[source]!.includes(name) ? value : 'forged',
    ])
    expect([source, other]).toEqual([source, { ...genuine, data: Object.fromEntries(expected) }])
    // A packet response has no other texts than these.
    if (source !== 'packet_response') expect(forged).not.toBe(text)
  }
})

describe('the example of a test', () => {
  it('is the oldest of the first source that has one; where none has, a person who is none of the patients', async () => {
    await using emulator = await startEmulator({ ...SIZES, packets: 0, documents: 0 })
    const world = emulator.control.world()
    const subjects = new Subjects(world)
    const example = (...sources: EventSource[]) => subjects.example(sources)
    expect(example('packet_response', 'form', 'patient')).toEqual({ source: 'form', row: world.forms.at(0) })
    const { source, row } = example('packet', 'document')
    expect(source).toBe('patient')
    expect(world.patients.get(row.id)).toBeUndefined()
    expect(world.patients.slice(0, 9).map(({ id }) => id)).not.toContain(row.id)
    expect(row).toHaveProperty('patient_tags')
    world.patients.remove(world.patients.at(0)!.id)
    expect(example('document', 'patient')).toEqual({ source: 'patient', row: world.patients.at(1) })
  })
})
