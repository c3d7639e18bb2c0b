/**
 * Answers of the service before they are rendered.
 *
 * Invariant: an answer contains records in the default shape, a failure its `detail`; neither depends on the current
 * shape.
 */
const RESOURCES = [
  'patients',
  'forms',
  'packets',
  'documents',
  'messages',
  'responses',
  'packet_responses',
  'exports',
  'webhooks',
  'events',
  'uploads',
] as const
type KnownResource = (typeof RESOURCES)[number]
/** Declared resources (src/emulator/world) have names of their own. */
export type Resource = KnownResource | (string & {})

export type JsonRecord = Readonly<Record<string, unknown>>

export type Answer =
  | {
      readonly type: 'record'
      readonly status: 200 | 201 | 202
      readonly resource: Resource
      readonly record: JsonRecord
    }
  | ({ readonly type: 'page' } & Page)
  | { readonly type: 'empty'; readonly status: 204 }
  | ExportAnswer
  | Failure

export interface Page {
  readonly resource: Resource
  readonly rows: readonly JsonRecord[]
  readonly count: number
  readonly next: string | null
  readonly previous: string | null
}

export const EXPORT_FORMATS = ['json', 'raw_text', 'download_file'] as const

/** An export as text: each cell has the position of its title; an empty cell is a missing value. */
export interface ExportTable {
  readonly titles: readonly string[]
  /** Batches of rows. */
  readonly rows: AsyncIterable<readonly (readonly string[])[]>
}

/** An export; its rows are built while it is sent. */
export interface ExportAnswer {
  readonly type: 'export'
  readonly format: (typeof EXPORT_FORMATS)[number]
  readonly name: string
  readonly table: ExportTable
}

export interface Failure {
  readonly type: 'failure'
  readonly status: number
  readonly detail: string
  /** The invalid field, for shapes that report it. */
  readonly field?: string
  readonly headers?: Readonly<Record<string, string>>
}

export function failure(status: number, detail: string, field?: string): Failure {
  return { type: 'failure', status, detail, ...(field === undefined ? {} : { field }) }
}

export const NOT_FOUND: Readonly<Record<KnownResource, string>> = {
  patients: 'Patient not found.',
  forms: 'Form not found.',
  packets: 'Packet not found.',
  documents: 'Document not found.',
  messages: 'Message not found.',
  responses: 'Response not found.',
  packet_responses: 'Packet response not found.',
  exports: 'Export not found.',
  webhooks: 'Webhook config not found.',
  events: 'Webhook event not found.',
  uploads: 'Batch upload not found.',
}

export function notFound(resource: Resource): string {
  return (NOT_FOUND as { readonly [name: string]: string })[resource] ?? 'Not found.'
}
