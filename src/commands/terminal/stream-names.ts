/** Parses `--streams a,b`. The result has the order of the catalogue, not of the option. */
import { UsageError } from '../../core/errors.ts'
import type { Stream } from '../../streams/stream.ts'

/** All of `known` if `names` is undefined. Throws `UsageError` for an unknown name. */
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
