/** All streams, by name. A new resource needs its file here, a migration and a fixture. */
import type { StreamName } from '../core/streams.ts'
import { documents } from './documents.ts'
import { formExports } from './exports.ts'
import { forms } from './forms.ts'
import { messages } from './messages.ts'
import { packetResponses } from './packet-responses.ts'
import { packets } from './packets.ts'
import { patients } from './patients.ts'
import { responses } from './responses.ts'
import type { Stream } from './stream.ts'
import { webhookConfigs } from './webhook-configs.ts'
import { webhookDeliveries } from './webhook-deliveries.ts'

/** The streams of a backfill, in the order of starting: exports need the questions of forms. */
export const STREAMS: readonly Stream[] = [
  patients,
  forms,
  packets,
  documents,
  responses,
  messages,
  formExports,
  webhookConfigs,
  webhookDeliveries,
]

/** All streams, including those that only webhooks deliver. */
export const ALL_STREAMS: readonly Stream[] = [...STREAMS, packetResponses]

const byName: ReadonlyMap<StreamName, Stream> = new Map(ALL_STREAMS.map((stream) => [stream.name, stream]))

const bySource: ReadonlyMap<string, Stream> = new Map(
  ALL_STREAMS.flatMap((stream) => (stream.source === undefined ? [] : [[stream.source, stream]])),
)

export function streamNamed(name: StreamName): Stream | undefined {
  return byName.get(name)
}

/** The stream of webhook events with this `source`. */
export function streamOfSource(source: string): Stream | undefined {
  return bySource.get(source)
}
