/** `--streams a,b` as streams, in the order in which they are built, whatever order they were named in. */
import { UsageError } from '../../core/errors.ts'
import type { Stream } from '../../streams/stream.ts'

/** All of `known` when nothing was named. Throws `UsageError` for a name that is not among them. */
export function streamsNamed(names: string | undefined, known: readonly Stream[]): readonly Stream[] {
  if (names === undefined) return known
  const asked = names.split(',').map((name) => name.trim())
  const unknown = asked.find((name) => !known.some((stream) => stream.name === name))
  if (unknown === undefined) return known.filter((stream) => asked.includes(stream.name))
  throw new UsageError(
    `--streams: there is no stream "${unknown}"`,
    `use one or more of: ${known.map((stream) => stream.name).join(', ')}`,
    '--streams',
  )
}
