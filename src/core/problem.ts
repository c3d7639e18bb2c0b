/**
 * A problem: one field that could not be read as its type (law 4). The record still loads; the field is null, and
 * the row's `_problems`, and nothing else, keeps the `original` value.
 */
export interface Problem {
  /** Place in the payload, such as `emergency_contact.phone_number` or `patient_tags[0].name`. */
  readonly path: string
  /** Describes the error; never contains a value. */
  readonly reason: string
  /** The value as received. */
  readonly original: unknown
}
