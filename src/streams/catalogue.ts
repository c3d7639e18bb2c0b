/** Every stream that is built, by name. Adding a resource is adding its file here, a migration and a fixture. */
import type { StreamName } from '../core/streams.ts'
import { documents } from './documents.ts'
import { forms } from './forms.ts'
import { packets } from './packets.ts'
import { patients } from './patients.ts'
import type { Stream } from './stream.ts'

export const STREAMS: readonly Stream[] = [patients, forms, packets, documents]

export function streamNamed(name: StreamName): Stream | undefined {
  return STREAMS.find((stream) => stream.name === name)
}
