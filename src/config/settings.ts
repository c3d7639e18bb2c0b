/**
 * Settings by name: from the environment, or from the file that `NAME_FILE` points at (Docker secrets).
 *
 * Invariant: an error names the variable and never shows its value.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
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

/** Every setting, in the order of README.md: its default in words, and whether its value may be shown. */
export const SETTINGS: Readonly<Record<string, { readonly without: string | null; readonly secret?: true }>> =
  {
    DATABASE_URL: { without: 'embedded', secret: true },
    INTAKE_BASE_URL: { without: null },
    INTAKE_API_KEY: { without: null, secret: true },
    INTAKE_API_SECRET: { without: null, secret: true },
    INTAKE_API_VERSION: { without: 'v2.1' },
    INTAKE_TEAM: { without: 'default' },
    INTAKE_CONFIG: { without: null },
    INTAKE_CONCURRENCY: { without: '4' },
    INTAKE_RATE_LIMIT: { without: 'learned' },
    INTAKE_GIVE_UP_AFTER: { without: '15m' },
    INTAKE_TIMEZONE: { without: 'UTC' },
    INTAKE_LOOKBACK_DAYS: { without: '2' },
    INTAKE_SWEEP_DAYS: { without: '7' },
    INTAKE_WEBHOOK_SECRETS: { without: null, secret: true },
    INTAKE_WEBHOOK_HOST: { without: '127.0.0.1' },
    INTAKE_WEBHOOK_PORT: { without: '8080' },
    INTAKE_TRUSTED_PROXIES: { without: null },
    INTAKE_ADMIN_HOST: { without: '127.0.0.1' },
    INTAKE_ADMIN_PORT: { without: '9090' },
    INTAKE_CONSOLE_HOST: { without: '127.0.0.1' },
    INTAKE_CONSOLE_PORT: { without: '9091' },
    INTAKE_CONSOLE_URL: { without: null },
    INTAKE_CONSOLE_PROXIES: { without: null },
    INTAKE_CONSOLE_LOGIN_HEADER: { without: null },
    INTAKE_CONSOLE_GROUPS_HEADER: { without: null },
    INTAKE_CONSOLE_ROLES: { without: null },
    INTAKE_CONSOLE_VALUES: { without: null },
    INTAKE_CRON: { without: '0 2 * * *' },
    INTAKE_CRON_MISSED: { without: 'skip' },
    INTAKE_INBOX_DAYS: { without: '30' },
    INTAKE_HISTORY_DAYS: { without: '400' },
    INTAKE_RUN_DAYS: { without: '400' },
    INTAKE_ENCRYPTION_KEY: { without: null, secret: true },
    INTAKE_ANALYTICS_KEY: { without: 'generated once', secret: true },
    INTAKE_ALERT_URL: { without: null, secret: true },
    INTAKE_ALERT_SECRET: { without: null, secret: true },
    INTAKE_ALERT_INBOX_AGE: { without: '5m' },
    INTAKE_ALERT_MAX_AGE: { without: '26h' },
    INTAKE_ALLOW_HTTP: { without: null },
    INTAKE_ALLOW_INSECURE_DATABASE: { without: null },
    INTAKE_DATA_DIR: { without: '.intake-sync' },
    LOG_LEVEL: { without: 'info' },
  }

/** The files of settings in the working directory that every command reads, the first before the second. */
export const ENV_FILE = 'intake-sync.env'
export const CONFIG_FILE = 'intake-sync.json'

export interface EnvFile {
  readonly path: string
  readonly values: Readonly<Record<string, string>>
}

/**
 * The settings file, or null where there is none: the one that INTAKE_ENV_FILE names, else one of the working directory.
 * A file that another user could have written is refused: it decides where health data goes.
 */
export function readEnvFile(env: NodeJS.ProcessEnv, folder: string): EnvFile | null {
  const named = env.INTAKE_ENV_FILE || null
  // INTAKE_CONFIG names another file of teams.
  const names = named !== null ? [named] : env.INTAKE_CONFIG ? [ENV_FILE] : [ENV_FILE, CONFIG_FILE]
  const name = names.find((each) => each === named || existsSync(resolve(folder, each)))
  if (name === undefined) return null
  const path = resolve(folder, name)
  const text = readSetting('INTAKE_ENV_FILE', path)
  const { uid, mode } = statSync(path)
  const userId = process.getuid?.()
  if (userId !== undefined && ((uid !== userId && uid !== 0) || (mode & 0o022) !== 0)) {
    throw new UsageError(
      `${name} could have been written by another user, so its settings are not used`,
      'chown and chmod 600 it, or remove it',
      'INTAKE_ENV_FILE',
    )
  }
  if (path.endsWith('.json')) return { path, values: valuesOfJson(path, text, env) }
  const values = Object.entries(parseEnv(text)).flatMap(([name, value]) => (value ? [[name, value]] : []))
  return { path, values: Object.fromEntries(values) }
}

/** Its key `settings`, and the file itself as the file of teams, unless the environment describes a team. */
function valuesOfJson(path: string, text: string, env: NodeJS.ProcessEnv): EnvFile['values'] {
  const access = ['INTAKE_BASE_URL', 'INTAKE_API_KEY', 'INTAKE_API_SECRET']
  const describesTeam = access.some((name) => env[name] || env[`${name}_FILE`])
  const entries = Object.entries(settingsOfDocument(parsedOrNull(text)))
  const values = entries.flatMap(([name, value]) => Object.entries(settingOfText(name, value, env)))
  return { ...Object.fromEntries(values), ...(describesTeam ? {} : { INTAKE_CONFIG: path }) }
}

/** Invalid JSON is reported when the teams are read. */
function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** The texts under `settings` of a file of teams. */
export function settingsOfDocument(document: unknown): Readonly<Record<string, string>> {
  const settings = (document as { settings?: unknown } | null)?.settings
  if (typeof settings !== 'object' || settings === null) return {}
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => typeof value === 'string'))
}

/** `"file:PATH"` as NAME_FILE, `"env:NAME"` as the value of that variable, any other text as it is. */
export function settingOfText(
  name: string,
  text: string,
  env: NodeJS.ProcessEnv,
): Readonly<Record<string, string>> {
  if (text.startsWith('file:')) return { [`${name}_FILE`]: text.slice(5) }
  if (!text.startsWith('env:')) return { [name]: text }
  const value = env[text.slice(4)]
  return value ? { [name]: value } : {}
}

/** The environment comes first, whether it sets NAME or NAME_FILE; the file adds the rest. */
export function withEnvFile(env: NodeJS.ProcessEnv, file: EnvFile | null): NodeJS.ProcessEnv {
  if (file === null) return env
  const rest = Object.entries(file.values).filter(([name]) => {
    const plain = name.replace(/_FILE$/, '')
    return env[plain] === undefined && env[`${plain}_FILE`] === undefined
  })
  return { ...env, ...Object.fromEntries(rest) }
}

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

/** The text of a file without the byte order mark that Windows saves before UTF-8. */
export const withoutMark = (text: string): string => text.replace(/^\ufeff/, '')

/** Reads a file that a setting names, without a byte order mark and its last line end. */
export function readSetting(variable: string, path: string): string {
  try {
    return withoutMark(readFileSync(path, 'utf8')).replace(/\r?\n$/, '')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown'
    throw new UsageError(
      `${variable} names a file that cannot be read (${code})`,
      'check the path and its permissions',
      variable,
      'file_unreadable',
    )
  }
}
