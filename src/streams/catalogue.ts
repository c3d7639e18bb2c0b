/**
 * All streams, and what follows from their declarations. A new resource has its line here: docs/adding-a-resource.md.
 *
 * Invariant: names, tables and sources are unique; generic code finds a stream only here.
 */
import type { Endpoint } from '../api/paths.ts'
import type { StreamName } from '../core/envelope.ts'
import { documents } from './documents.ts'
import { formExports } from './exports.ts'
import { forms } from './forms.ts'
import { messages } from './messages.ts'
import { packetResponses } from './packet-responses.ts'
import { packets } from './packets.ts'
import { patients } from './patients.ts'
import { responses } from './responses.ts'
import type { Reading, Stream } from './stream.ts'
import { webhookConfigs } from './webhook-configs.ts'
import { webhookDeliveries } from './webhook-deliveries.ts'

/** In the order of starting and reporting; exports need the questions of forms. */
export const ALL_STREAMS: readonly Stream[] = [
  patients,
  forms,
  packets,
  documents,
  responses,
  messages,
  formExports,
  webhookConfigs,
  webhookDeliveries,
  packetResponses,
]

/** Those that backfills read; the others come only from webhooks. */
export const STREAMS: readonly Stream[] = ALL_STREAMS.filter(({ list }) => list !== null)

export const STREAM_NAMES: readonly StreamName[] = ALL_STREAMS.map(({ name }) => name)

/** The paths of all lists and records. */
export const ENDPOINTS: readonly Endpoint[] = ALL_STREAMS.flatMap(({ list, one }) => [list, one]).filter(
  (endpoint) => endpoint !== null,
)

/** The stream whose records are persons: what `erase` erases. */
export const PERSONS: Stream & { readonly person: NonNullable<Stream['person']> } = onlyOne(
  (stream) => stream.person !== undefined,
) as never

/** The stream whose records are files with rows of persons. */
export const FILES: Stream & { readonly reading: Extract<Reading, { readonly kind: 'files' }> } = onlyOne(
  (stream) => stream.reading?.kind === 'files',
) as never

function onlyOne(which: (stream: Stream) => boolean): Stream {
  const [stream, ...others] = ALL_STREAMS.filter(which)
  if (stream === undefined || others.length > 0) throw new Error('one stream of the catalogue must have this')
  return stream
}

const byName: ReadonlyMap<StreamName, Stream> = new Map(ALL_STREAMS.map((stream) => [stream.name, stream]))

const bySource: ReadonlyMap<string, Stream> = new Map(
  ALL_STREAMS.flatMap((stream) => (stream.source === undefined ? [] : [[stream.source, stream]])),
)

/** The stream of this name; undefined if the catalogue has none. */
export function streamNamed(name: StreamName): Stream | undefined {
  return byName.get(name)
}

/** The stream of webhook events with this `source`. */
export function streamOfSource(source: string): Stream | undefined {
  return bySource.get(source)
}
