/**
 * A problem: one field that could not be read as its type (law 4). The record still loads; the field is null, and
 * `original` keeps what came, in the row's `_problems` and nowhere else.
 */
export interface Problem {
  /** Where in the payload, as `emergency_contact.phone_number` or `patient_tags[0].name`. */
  readonly path: string
  /** Says what is wrong; never holds a value. */
  readonly reason: string
  /** The value as it came. */
  readonly original: unknown
}
