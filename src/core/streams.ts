/** The names of the streams, in the order in which a run reports them. */
export const STREAM_NAMES = [
  'patients',
  'forms',
  'packets',
  'documents',
  'responses',
  'messages',
  'exports',
  'webhook_configs',
  'webhook_deliveries',
  'packet_responses',
] as const

export type StreamName = (typeof STREAM_NAMES)[number]

/** Where that is kept which an event tells of no stream that is known: an event that cannot be read, a new source. */
export const INBOX = 'inbox'

export type StreamOrInbox = StreamName | typeof INBOX
