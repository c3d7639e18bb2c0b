/**
 * A read-only resource that one file declares: its list, its records by id and its webhook events follow
 * (docs/adding-a-resource.md).
 */
import type { JsonRecord } from '../http/answer.ts'
import type { IdSpace, Key } from './draw.ts'
import type { Row } from './table.ts'

/** What the rows of a seeded world are made from. */
export interface Seeded {
  /** For draws; differs by seed, environment and team. */
  readonly key: Key
  readonly patients: { readonly ids: IdSpace; readonly count: number }
}

export type DeclaredRow = Row & JsonRecord

export interface DeclaredResource {
  /** Last part of its path `/v2/…`, and name of its rows in shapes. */
  readonly resource: string
  /** `source` of its events. */
  readonly source: string
  /** Of the description: what the resource is, and whether the specification shows it (`Shown`) or not (`Assumed`). */
  readonly about: string
  /** JSON Schemas of its fields besides id, created_at and updated_at; each record has them all. */
  readonly fields: Readonly<Record<string, object>>
  /** Number of seeded rows. */
  readonly size: (seeded: Seeded) => number
  /** The seeded row at `index`, in the default shape; the same at every call. */
  readonly make: (id: string, index: number, seeded: Seeded) => DeclaredRow
}
