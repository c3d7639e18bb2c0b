/**
 * What a seed and the imports determine of a world: how many records there are, and how each one is generated.
 *
 * Invariant: none of it changes. A record of an index is the same each time it is generated.
 */
import type { IdSpace, Key } from '../draw.ts'
import type { Document, Form, Packet, Patient } from '../records.ts'
import type { Person } from './make-patient.ts'
import type { Visits } from './visits.ts'

/** Number of seeded records of each kind. */
export interface Sizes {
  readonly patients: number
  readonly forms: number
  readonly packets: number
  readonly documents: number
  readonly responses: number
}

/** The answers of a survey: each row is the response of one client, each cell the answer to one question. */
export interface Survey {
  /** Index of its form among the imported ones. */
  readonly form: number
  /** Index of its first client among the imported patients; the others follow. */
  readonly firstPatient: number
  readonly rows: readonly (readonly string[])[]
}

/**
 * Imported records without ids and stamps. They precede the generated records. The forms of surveys come first, one
 * per survey; only the clients of the survey answer them.
 */
export interface Imported {
  readonly patients: readonly Omit<Patient, 'id' | 'created_at' | 'updated_at'>[]
  readonly forms: readonly ((ids: IdSpace, key: Key, index: number) => Form)[]
  readonly surveys: readonly Survey[]
}

/** Counts, ids and generators of the seeded records. `make(index)` returns a record as it was seeded. */
export interface Seed {
  readonly imported: Imported
  readonly sizes: Sizes
  readonly visits: Visits
  readonly patients: {
    readonly count: number
    readonly ids: IdSpace
    readonly make: (index: number) => Patient
  }
  readonly forms: {
    readonly count: number
    /** Index of the first form that visits ask for. */
    readonly first: number
    readonly ids: IdSpace
    readonly make: (index: number) => Form
  }
  readonly packets: { readonly ids: IdSpace; readonly make: (index: number) => Packet }
  readonly documents: {
    readonly count: number
    readonly ids: IdSpace
    readonly make: (index: number) => Document
  }
  readonly responseIds: IdSpace
  readonly messageIds: IdSpace
  readonly packetResponseIds: IdSpace
  /** Number of responses before those of the visits. */
  readonly before: number
  readonly key: Key
  readonly exportIds: IdSpace
  /** The part of a seeded patient that other records show. */
  readonly person: (index: number) => Person
}

/** The filtered fields of a seeded response: indexes, and times in microseconds. */
export interface Head {
  readonly patient: number
  readonly form: number | null
  readonly packet: number | null
  readonly submitted: number | null
  readonly skipped: boolean
}
