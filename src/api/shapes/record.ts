/**
 * What every record of the service may look like.
 *
 * Invariant: shapes describe, they do not filter: unknown fields stay, and an optional part may be null, empty or
 * absent. Reading a record tolerantly is the streams' work; these are the types of the public client.
 */
import { z } from 'zod'

/** The service does not promise UUIDs: an id is text or a number, under `id` or `uid`. */
export const Id = z.union([z.string(), z.number()])

export const Optional = z.string().nullish()

export const identified = { id: Id.optional(), uid: Id.optional() }

/** A reference to another record: its id, an object that holds it, or nothing. */
export const Reference = z.union([Id, z.looseObject({ ...identified, name: Optional })]).nullish()
