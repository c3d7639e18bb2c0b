/**
 * The records of events that are still to be sent.
 *
 * Invariant: an existing record is shown in its current state, a deleted one in its last state. Only records of unsent
 * events are stored.
 */
import type { EventSource, World, WorldEvent } from '../world/world.ts'

type Row = Exclude<WorldEvent, { source: 'message' }>['row']

export interface Subject {
  readonly source: EventSource
  readonly id: string
  /** State at the newest event, shown once the record is deleted. */
  last: Row
  /** Number of events that retain it. */
  uses: number
}

export class Subjects {
  readonly #world: World
  readonly #byId = new Map<string, Subject>()

  constructor(world: World) {
    this.#world = world
  }

  /** The subject of an event that is to be sent. The caller must release it. */
  retain(source: EventSource, row: Row): Subject {
    let subject = this.#byId.get(row.id)
    if (subject === undefined) {
      subject = { source, id: row.id, last: row, uses: 0 }
      this.#byId.set(row.id, subject)
    }
    subject.uses += 1
    return subject
  }

  release(subject: Subject): void {
    subject.uses -= 1
    if (subject.uses === 0) this.#byId.delete(subject.id)
  }

  /** Stores the last state of a changed record. */
  note({ id, row, source }: WorldEvent): void {
    if (source === 'message') return
    const subject = this.#byId.get(id)
    if (subject !== undefined) subject.last = row
  }

  rowOf({ source, id, last }: Subject): Row {
    return tableOf(this.#world, source).get(id) ?? last
  }

  /** A record for a simulated event: the oldest of the first source that has one, else an invented patient. */
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
