/** A record or event that could not be loaded, and the reason. */
export interface DeadLetter {
  readonly recordId: string | null
  readonly origin: string
  /** Describes the error; never contains a value. */
  readonly reason: string
  /** The record or event, as text or bytes. */
  readonly body: string | Buffer
}
