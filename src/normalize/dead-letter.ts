/** What could not be loaded, and why. */
export interface DeadLetter {
  readonly recordId: string | null
  readonly origin: string
  /** Says what is wrong and holds no value. */
  readonly reason: string
  /** What is set aside, as text or bytes. */
  readonly body: string | Buffer
}
