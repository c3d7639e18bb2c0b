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

/** Stands for the stream of an event whose stream is unknown: the event cannot be read, or its source is new. */
export const INBOX = 'inbox'

export type StreamOrInbox = StreamName | typeof INBOX
