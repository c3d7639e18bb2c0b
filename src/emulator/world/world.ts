/**
 * All data of one team in one environment, and the news of what changes in it.
 *
 * Invariant: two worlds never share an id, since every id space is keyed by seed, environment and team; every change
 * made at run time, by whichever way, is told to every subscriber after it can be read.
 */
import { type ServiceClock, stamp } from '../clock.ts'
import { type Key, keyOf } from './draw.ts'
import { IdSpace } from './id-space.ts'
import { makeDocument, makeForm, makePacket } from './make-form.ts'
import { makePatient } from './make-patient.ts'
import type { Document, Form, Packet, Patient } from './records.ts'
import { type Change, Table } from './table.ts'

/** How many records of each kind a world is seeded with. */
export interface Sizes {
  readonly patients: number
  readonly forms: number
  readonly packets: number
  readonly documents: number
}

/** What an import brings, without ids and stamps; it stands before the generated records. */
export interface Imported {
  readonly patients: readonly Omit<Patient, 'id' | 'created_at' | 'updated_at'>[]
  readonly forms: readonly ((ids: IdSpace, key: Key, index: number) => Form)[]
}

export type Source = 'patient' | 'form' | 'packet' | 'document'

/** One change of one record, in the words of a webhook event. */
export interface WorldEvent extends Change {
  readonly source: Source
  /** The service's time of the change, in microseconds. */
  readonly at: number
}

export class World {
  readonly key: Key
  readonly clock: ServiceClock
  readonly patients: Table<Patient>
  readonly forms: Table<Form>
  readonly packets: Table<Packet>
  readonly documents: Table<Document>
  readonly #subscribers = new Set<(event: WorldEvent) => void>()

  constructor(path: readonly (string | number)[], sizes: Sizes, imported: Imported, clock: ServiceClock) {
    this.key = keyOf(...path)
    this.clock = clock
    const open = <T extends { id: string }>(
      source: Source,
      size: number,
      make: (ids: IdSpace, key: Key, index: number) => T,
    ) => {
      const key = keyOf(...path, source)
      const ids = new IdSpace(key)
      return new Table<T>(
        ids,
        size,
        (index) => make(ids, key, index),
        (change) => this.#tell(source, change),
      )
    }
    const people = imported.patients
    this.patients = open('patient', people.length + sizes.patients, (ids, key, index) => {
      const person = people[index]
      const made = makePatient(ids, key, index)
      if (person === undefined) return made
      return { id: made.id, ...person, created_at: made.created_at, updated_at: made.updated_at }
    })
    this.forms = open('form', imported.forms.length + sizes.forms, (ids, key, index) => {
      const build = imported.forms[index]
      return build === undefined
        ? makeForm(ids, key, index, index - imported.forms.length)
        : build(ids, key, index)
    })
    const members = Array.from({ length: Math.min(this.forms.end, 50) }, (_, at) => this.forms.ids.idAt(at))
    this.packets = open('packet', sizes.packets, (ids, key, index) => makePacket(ids, key, index, members))
    this.documents = open('document', sizes.documents, makeDocument)
  }

  /** The service's time as records carry it. */
  now(): string {
    return stamp(this.clock.now())
  }

  /** Calls `listener` after every change from now on, until the returned function is called. */
  subscribe(listener: (event: WorldEvent) => void): () => void {
    this.#subscribers.add(listener)
    return () => this.#subscribers.delete(listener)
  }

  #tell(source: Source, change: Change): void {
    if (this.#subscribers.size === 0) return
    const event: WorldEvent = { ...change, source, at: this.clock.now() }
    for (const subscriber of this.#subscribers) subscriber(event)
  }
}
