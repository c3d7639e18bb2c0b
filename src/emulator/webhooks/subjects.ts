/**
 * What events are about: the records, as they are when an attempt is made.
 *
 * Invariant: a record that still exists is shown as it is now; one that is gone, as it was when it was deleted, for
 * every event of it that is still to be sent. Nothing is kept of a record that no such event is about.
 */
import type { EventSource, World, WorldEvent } from '../world/world.ts'

type Row = Exclude<WorldEvent, { source: 'message' }>['row']

export interface Subject {
  readonly source: EventSource
  readonly id: string
  /** As the newest event found it: what is shown once the record is gone. */
  last: Row
  /** How many events hold on to it. */
  held: number
}

export class Subjects {
  readonly #world: World
  readonly #byId = new Map<string, Subject>()

  constructor(world: World) {
    this.#world = world
  }

  /** The subject of an event that is to be sent; to be released when that is over. */
  hold(source: EventSource, row: Row): Subject {
    let subject = this.#byId.get(row.id)
    if (subject === undefined) {
      subject = { source, id: row.id, last: row, held: 0 }
      this.#byId.set(row.id, subject)
    }
    subject.held += 1
    return subject
  }

  release(subject: Subject): void {
    subject.held -= 1
    if (subject.held === 0) this.#byId.delete(subject.id)
  }

  /** Takes notice of a change. */
  note({ id, row, source }: WorldEvent): void {
    if (source === 'message') return
    const subject = this.#byId.get(id)
    if (subject !== undefined) subject.last = row
  }

  rowOf({ source, id, last }: Subject): Row {
    return tableOf(this.#world, source).get(id) ?? last
  }

  /** A record for a simulated event: the oldest of the first source that has one, else a patient who is nobody. */
  example(sources: readonly EventSource[]): { source: EventSource; row: Row } {
    for (const source of sources) {
      const [row] = tableOf(this.#world, source).slice(0, 1)
      if (row !== undefined) return { source, row }
    }
    return { source: 'patient', row: this.#world.seed.patients.make(NOBODY) }
  }
}

/** No world has so many patients. */
const NOBODY = 2 ** 31 + 1

function tableOf(world: World, source: EventSource) {
  return {
    patient: world.patients,
    form: world.forms,
    packet: world.packets,
    document: world.documents,
    response: world.responses,
    packet_response: world.packetResponses,
  }[source]
}
