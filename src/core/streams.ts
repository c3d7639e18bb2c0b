/** The name of a stream, which its declaration gives (src/streams). */
export type StreamName = string

/** Stands for the stream of an event whose stream is unknown: the event cannot be read, or its source is new. */
export const INBOX = 'inbox'

export type StreamOrInbox = StreamName | typeof INBOX
