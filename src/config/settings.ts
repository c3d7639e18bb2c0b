/** Settings by name: from the environment, or from the file that `NAME_FILE` points at (Docker secrets). */
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** A duration as `90s`, `15m`, `2h` or `8d`, to seconds. */
export const durationShape = z
  .string()
  .regex(/^\d{1,6}[smhd]$/)
  .transform((text) => Number(text.slice(0, -1)) * SECONDS[text.at(-1)!]!)
  .pipe(z.number().min(1))

const UNITS: Readonly<Record<string, number>> = { s: 1, min: 60, m: 60, h: 3_600 }
const MAX_REQUESTS = 100_000

/** Requests in a time as `20/s`, `1000/min` or `5000/h`, at least one a minute; null for `learned`. */
export const rateLimitShape = z.union([
  z.literal('learned').transform(() => null),
  z
    .string()
    .regex(/^\d{1,6}\/(?:s|min|m|h)$/)
    .transform((text) => {
      const [requests, unit] = text.split('/')
      return { requests: Number(requests), seconds: UNITS[unit!]! }
    })
    .refine(({ requests, seconds }) => requests <= MAX_REQUESTS && requests * 60 >= seconds),
])

export interface Settings {
  /** The value of `name`, or null when it is not set; a file's last line end is not part of it. */
  get(name: string): string | null
}

export function settingsOf(env: NodeJS.ProcessEnv): Settings {
  return {
    get(name) {
      const value = env[name]
      const file = env[`${name}_FILE`]
      if (file === undefined || file === '') return value ?? null
      if (value !== undefined && value !== '') {
        throw new UsageError(`${name} and ${name}_FILE are both set`, 'set one of the two', name)
      }
      return readSetting(`${name}_FILE`, file)
    },
  }
}

/** A key as written, if it looks like one; a value that was written in place of a key must not be shown. */
export function printableKey(key: PropertyKey): string {
  return typeof key === 'number' || /^[A-Za-z][\w-]{0,30}$/.test(String(key)) ? String(key) : 'an unknown key'
}

/** Reads a file that a setting names. */
export function readSetting(variable: string, path: string): string {
  try {
    return readFileSync(path, 'utf8').replace(/\r?\n$/, '')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown'
    throw new UsageError(
      `${variable} names a file that cannot be read (${code})`,
      'check the path and its permissions',
      variable,
    )
  }
}
