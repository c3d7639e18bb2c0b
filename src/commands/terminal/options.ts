/** The values of options: numbers, durations, names of streams. Throws an error that says what to write. */
import { InvalidArgumentError } from 'commander'
import { UsageError } from '../../core/errors.ts'
import type { Stream } from '../../streams/stream.ts'

/** The value of an option that counts something. */
export function wholeNumber(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('write a whole number from 1')
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** A duration in seconds: `26h`, `90m`, `2d`, `30s`; a bare number is seconds. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([smhd]?)$/.exec(text.trim())
  if (match === null) throw new InvalidArgumentError('write it as 26h, 90m, 2d, or a number of seconds')
  return Number(match[1]) * SECONDS[match[2] || 's']!
}

/**
 * Parses `--streams a,b`; all of `known` if `names` is undefined. The result has the order of the catalogue, not of the
 * option. Throws `UsageError` for an unknown name.
 */
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
