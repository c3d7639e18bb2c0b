/**
 * All data of one team in one environment, with subscriptions to its changes.
 *
 * Invariant: two worlds never share an id, since every id space is keyed by seed, environment and team; every change
 * at run time is reported to every subscriber after it can be read.
 */
import { type ServiceClock, stamp, type Timeline } from '../clock.ts'
import type { DeclaredRow } from './declared.ts'
import { DECLARED } from './declared-catalogue.ts'
import { IdSpace, type Key, keyOf } from './draw.ts'
import type { Document, Form, Message, Packet, PacketResponse, Patient, Response } from './records.ts'
import type { Person } from './seeded/make-patient.ts'
import { makeMessage, makePacketResponse } from './seeded/make-response.ts'
import { openSeed, seededResponse } from './seeded/open-seed.ts'
import type { Imported, Seed, Sizes } from './seeded/seed.ts'
import { type Change, type Row, Table } from './table.ts'

/** Records by the source name of their webhook events. Messages have no events. */
export interface Sources {
  patient: Patient
  form: Form
  packet: Packet
  document: Document
  response: Response
  packet_response: PacketResponse
  message: Message
}

export type Source = keyof Sources

const OWN_SOURCES = ['patient', 'form', 'packet', 'document', 'response', 'packet_response'] as const
/** Those with a type of their own; declared resources have further ones at run time. */
export type EventSource = (typeof OWN_SOURCES)[number]

export const EVENT_SOURCES: readonly EventSource[] = [
  ...OWN_SOURCES,
  ...DECLARED.map(({ source }) => source as EventSource),
]

/** One change of one record. */
export type WorldEvent = {
  readonly [S in Source]: Change<Sources[S]> & {
    readonly source: S
    /** The service's time of the change, in microseconds. */
    readonly at: number
  }
}[Source]

export class World {
  readonly key: Key
  readonly clock: ServiceClock
  readonly timeline: Timeline
  readonly seed: Seed
  readonly patients: Table<Patient>
  readonly forms: Table<Form>
  readonly packets: Table<Packet>
  readonly documents: Table<Document>
  readonly messages: Table<Message>
  readonly responses: Table<Response>
  readonly packetResponses: Table<PacketResponse>
  readonly #declared: ReadonlyMap<string, Table<DeclaredRow>>
  readonly #subscribers = new Set<(event: WorldEvent) => void>()

  constructor(
    path: readonly (string | number)[],
    sizes: Sizes,
    imported: Imported,
    clock: ServiceClock,
    timeline: Timeline,
  ) {
    this.key = keyOf(...path)
    this.clock = clock
    this.timeline = timeline
    const seed = openSeed(path, sizes, imported)
    this.seed = seed
    const { visits } = seed
    const { patients, forms, packets, documents } = seed
    this.patients = this.#open('patient', patients.ids, seed.sizes.patients, patients.make)
    this.forms = this.#open('form', forms.ids, seed.sizes.forms, forms.make)
    this.packets = this.#open('packet', packets.ids, seed.sizes.packets, packets.make)
    this.documents = this.#open('document', documents.ids, seed.sizes.documents, documents.make)
    this.messages = this.#open('message', seed.messageIds, visits.messages, (at) => makeMessage(seed, at))
    this.responses = this.#open('response', seed.responseIds, seed.sizes.responses, (at) =>
      seededResponse(seed, at),
    )
    this.packetResponses = this.#open(
      'packet_response',
      seed.packetResponseIds,
      visits.packetResponses,
      (at) => makePacketResponse(seed, at),
    )
    const seeded = { key: this.key, patients: { ids: patients.ids, count: seed.sizes.patients } }
    this.#declared = new Map(
      DECLARED.map(({ source, size, make }) => {
        const ids = new IdSpace(keyOf(...path, source))
        const row = (index: number) => make(ids.idAt(index), index, seeded)
        return [
          source,
          this.#open(source as Source, ids, size(seeded), row as never) as unknown as Table<DeclaredRow>,
        ]
      }),
    )
  }

  /** The records of a declared resource. */
  declared(source: string): Table<DeclaredRow> {
    const table = this.#declared.get(source)
    if (table === undefined) throw new RangeError(`no resource is declared with the source "${source}"`)
    return table
  }

  /** The service's time as an ISO 8601 stamp. */
  now(): string {
    return stamp(this.clock.now())
  }

  /** The part of a patient that other records show, in its current state; null if deleted. */
  person(id: string): Person | null {
    const index = this.patients.ids.indexOf(id)
    if (index === undefined || !this.patients.has(index)) return null
    const { external_id, first_name, last_name, email } =
      this.patients.touched().get(index) ?? this.seed.person(index)
    return { id, external_id, first_name, last_name, email }
  }

  /** Calls `listener` after every change from now on, until the returned function is called. */
  subscribe(listener: (event: WorldEvent) => void): () => void {
    this.#subscribers.add(listener)
    return () => this.#subscribers.delete(listener)
  }

  #open<S extends Source, T extends Row & Sources[S]>(
    source: S,
    ids: IdSpace,
    size: number,
    make: (index: number) => T,
  ): Table<T> {
    return new Table<T>(ids, size, make, (change) => {
      if (this.#subscribers.size === 0) return
      const event = { ...change, source, at: this.clock.now() } as unknown as WorldEvent
      for (const subscriber of this.#subscribers) subscriber(event)
    })
  }
}
