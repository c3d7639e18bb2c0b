/** Durations on the command line: `26h`, `90m`, `2d`, `30s`; a bare number is seconds. */
import { InvalidArgumentError } from 'commander'

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** Seconds. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([smhd]?)$/.exec(text.trim())
  if (match === null) throw new InvalidArgumentError('write it as 26h, 90m, 2d, or a number of seconds')
  return Number(match[1]) * SECONDS[match[2] || 's']!
}
