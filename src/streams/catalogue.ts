/** Every stream that is built, by name. Adding a resource is adding its file here, a migration and a fixture. */
import type { StreamName } from '../core/streams.ts'
import { documents } from './documents.ts'
import { formExports } from './exports.ts'
import { forms } from './forms.ts'
import { messages } from './messages.ts'
import { packets } from './packets.ts'
import { patients } from './patients.ts'
import { responses } from './responses.ts'
import type { Stream } from './stream.ts'
import { webhookConfigs } from './webhook-configs.ts'
import { webhookDeliveries } from './webhook-deliveries.ts'

/** In the order in which a backfill begins them: exports know their questions when forms were read before. */
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

const byName: ReadonlyMap<StreamName, Stream> = new Map(STREAMS.map((stream) => [stream.name, stream]))

export function streamNamed(name: StreamName): Stream | undefined {
  return byName.get(name)
}
