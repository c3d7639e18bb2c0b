/** How much the ingester accepts at once, and how long it waits. */

export interface IngestLimits {
  /** Bytes of one body: CONTRACT of the endpoint, 413 beyond. */
  readonly body: number
  /** Signed events that are being stored; 503 beyond. */
  readonly eventsInFlight: number
  /** Bytes of requests that are being read or stored; 503 beyond. */
  readonly bytesInFlight: number
  /** Connections; beyond, the oldest on which nothing was signed is closed. */
  readonly connections: number
  /** Connections of one peer on which nothing was signed. */
  readonly connectionsOfPeer: number
  /** For the head of a request, and for a connection that sends nothing. */
  readonly headersMs: number
  /** For a whole request. */
  readonly requestMs: number
  /** The least rate of a body after `graceMs`; 408 below. */
  readonly bytesPerSecond: number
  readonly graceMs: number
  /** A body that nobody signed yet may have to make room for others after this time. */
  readonly staleMs: number
  /** Between two requests of a connection; longer than balancers keep theirs, so that they close first. */
  readonly idleMs: number
  /** How often `headersMs` and `requestMs` are enforced. */
  readonly checkMs: number
  /** From an event's arrival in the inbox to its answer. */
  readonly storeMs: number
  /** For one statement in the warehouse, and for a connection to it. */
  readonly statementMs: number
  /** For requests in flight when the ingester closes. */
  readonly closeMs: number
}

export const LIMITS: IngestLimits = {
  body: 5_242_880,
  eventsInFlight: 10_000,
  bytesInFlight: 64 * 1024 * 1024,
  connections: 4_000,
  connectionsOfPeer: 1_000,
  headersMs: 5_000,
  requestMs: 30_000,
  bytesPerSecond: 16 * 1024,
  graceMs: 3_000,
  staleMs: 1_000,
  idleMs: 65_000,
  checkMs: 1_000,
  storeMs: 1_600,
  statementMs: 1_400,
  closeMs: 5_000,
}
