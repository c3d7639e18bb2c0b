/**
 * Options that several commands have, and their values: numbers, durations, names of streams.
 *
 * Invariant: an invalid value ends the command with exit code 2 and says what to write.
 */
import { InvalidArgumentError, Option } from 'commander'
import { UsageError } from '../core/errors.ts'
import type { Stream } from '../streams/stream.ts'

/** The value of an option that counts something. */
export function wholeNumber(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Use a whole number from 1 to 999999.')
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** A duration in seconds: `26h`, `90m`, `2d`, `30s`; a bare number is seconds. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([smhd]?)$/.exec(text.trim())
  if (match === null)
    throw new InvalidArgumentError('Use a duration such as 26h, 90m or 2d, or a number of seconds.')
  return Number(match[1]) * SECONDS[match[2] || 's']!
}

/**
 * Parses `--streams a,b`; all of `known` if `names` is undefined. The result has the order of the catalogue, not of the
 * option. Throws `UsageError` for an unknown name.
 */
export function streamsNamed(names: string | undefined, known: readonly Stream[]): readonly Stream[] {
  if (names === undefined) return known
  const requested = names.split(',').map((name) => name.trim())
  for (const name of requested) requireStream(name, known.map(nameOf), '--streams')
  return known.filter(({ name }) => requested.includes(name))
}

/** Throws `UsageError`, with the name that was probably meant, if `name` is not among `known`. */
export function requireStream(name: string, known: readonly string[], variable: string): void {
  if (known.includes(name)) return
  const similar = known.filter((other) => distance(other, name.toLowerCase().replaceAll('-', '_')) <= 2)
  const meant = similar.length === 0 ? '' : `did you mean ${similar.join(' or ')}? `
  throw new UsageError(
    `unknown stream "${name}"`,
    `${meant}the streams are: ${known.join(', ')}`,
    variable,
    'unknown_stream',
  )
}

/** Characters to add, remove or replace to turn one word into the other. */
function distance(from: string, to: string): number {
  let row = [...to, ''].map((_, at) => at)
  for (const [at, character] of [...from].entries()) {
    const next = [at + 1]
    for (const [place, other] of [...to].entries()) {
      const replaced = row[place]! + (character === other ? 0 : 1)
      next.push(Math.min(replaced, row[place + 1]! + 1, next[place]! + 1))
    }
    row = next
  }
  return row[to.length]!
}

const nameOf = ({ name }: Stream): string => name

export function streamsOption(known: readonly Stream[]): Option {
  return new Option(
    '--streams <names>',
    `only these streams, comma-separated: ${known.map(nameOf).join(', ')}`,
  )
}

export function teamOption(of: 'configuration' | 'warehouse'): Option {
  return new Option('--team <name>', `only this team of the ${of}`)
}
