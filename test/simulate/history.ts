/**
 * Every state that each record of the source ever had, with its period.
 *
 * Invariant: every answer that was ever given is among the states; times are microseconds of the service's clock.
 */
import type { JsonRecord } from '../../src/emulator/http/answer.ts'
import {
  showDocument,
  showForm,
  showMessage,
  showPacket,
  showPacketResponse,
  showPatient,
  showResponse,
} from '../../src/emulator/http/resources/show.ts'
import type { Row, Table } from '../../src/emulator/world/table.ts'
import type { World } from '../../src/emulator/world/world.ts'
import { type Service, VERSION } from './service.ts'

export const STREAMS = [
  'patients',
  'forms',
  'packets',
  'documents',
  'responses',
  'messages',
  'packet_responses',
] as const
export type SimulatedStream = (typeof STREAMS)[number]

export interface State {
  readonly from: number
  /** Null while it is current. */
  to: number | null
  /** Null for a deleted record. */
  readonly text: string | null
}

export interface History {
  /** Records changes since the last call; call it before any answer or event is rendered. */
  look(): void
  /** Records the content of an event about a deleted record: its last state, with the current names of other records. */
  tellOfGone(stream: SimulatedStream, id: string, data: unknown): void
  statesOf(stream: SimulatedStream, id: string): readonly State[]
  /** The current state of the record. */
  current(stream: SimulatedStream, id: string): State | undefined
  ids(stream: SimulatedStream): Iterable<string>
}

type Shown = (row: never, showing: { world: World; version: string; nestedForms: boolean }) => JsonRecord

const SHOWN: Readonly<Record<SimulatedStream, Shown>> = {
  patients: showPatient,
  forms: showForm,
  packets: showPacket,
  documents: showDocument,
  responses: showResponse,
  messages: showMessage,
  packet_responses: showPacketResponse,
}

const SOURCES: Readonly<Record<SimulatedStream, string>> = {
  patients: 'patient',
  forms: 'form',
  packets: 'packet',
  documents: 'document',
  responses: 'response',
  messages: 'message',
  packet_responses: 'packet_response',
}

export function openHistory({ world, shape }: Service, streams: readonly SimulatedStream[]): History {
  const known = new Map(streams.map((stream) => [stream, new Map<string, State[]>()]))
  let changed = true
  // States at the start have existed for ever.
  let beginning = true
  world.subscribe(({ source, type, id, row }) => {
    changed = true
    const stream = streams.find((each) => SOURCES[each] === source)
    // A deleted record is shown in its last state, however short that was.
    if (stream !== undefined) note(known.get(stream)!, id, type === 'deleted' ? null : shown(stream, row))
  })

  function look(): void {
    if (!changed) return
    changed = false
    for (const stream of streams) {
      const states = known.get(stream)!
      const table = tableOf(world, stream)
      const there = new Set<string>()
      for (let index = 0; index < table.end; index++) {
        const row = table.at(index)
        if (row === undefined) continue
        there.add(row.id)
        note(states, row.id, shown(stream, row))
      }
      for (const id of states.keys()) if (!there.has(id)) note(states, id, null)
    }
  }

  function shown(stream: SimulatedStream, row: Row): string {
    const showing = { world, version: VERSION, nestedForms: shape.has('nested-forms') }
    const record = SHOWN[stream](row as never, showing)
    return comparable(shape.record(record, { resource: stream, inList: false }))
  }

  function note(states: Map<string, State[]>, id: string, text: string | null): void {
    const own = states.get(id) ?? []
    states.set(id, own)
    const last = own.at(-1)
    if (last !== undefined && last.text === text) return
    const now = world.clock.now()
    if (last !== undefined) last.to = now
    own.push({ from: beginning ? Number.NEGATIVE_INFINITY : now, to: null, text })
  }

  look()
  beginning = false
  return {
    look,
    tellOfGone(stream, id, data) {
      const states = known.get(stream)!.get(id)!
      const now = world.clock.now()
      if (states.at(-1)!.text === null) states.splice(-1, 0, { from: now, to: now, text: comparable(data) })
    },
    statesOf: (stream, id) => known.get(stream)?.get(id) ?? [],
    current: (stream, id) => known.get(stream)?.get(id)?.at(-1),
    ids: (stream) => known.get(stream)!.keys(),
  }
}

function tableOf(world: World, stream: SimulatedStream): Table<Row> {
  const table = stream === 'packet_responses' ? world.packetResponses : world[stream]
  return table as unknown as Table<Row>
}

/** A record as text, without parts that no table stores: signatures of addresses, and images. */
export function comparable(value: unknown): string {
  return JSON.stringify(plain(value))
}

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'string')
    return value.startsWith('https://files.example.com/') ? value.split('?')[0] : value
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).filter(([name]) => name !== 'image')
  return Object.fromEntries(
    fields.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, each]) => [name, plain(each)]),
  )
}
