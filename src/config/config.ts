/**
 * Environment and configuration file → one frozen Config. Read once, by cli.ts.
 *
 * Invariant: every value is checked before anything is opened; a bad one stops with `UsageError`, which names the
 * variable and its expected form, and never shows the value.
 */
import type { BlockList } from 'node:net'
import { validate as isCron } from 'node-cron'
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'
import type { LoginProxy } from '../core/peers.ts'
import { selectTeams } from '../core/which-team.ts'
import { CONSOLE_PROXY, consoleProxyOf, proxies } from './console-proxy.ts'
import { readTeamsFile, teamsOfDocument } from './file.ts'
import { type Settings, settingsOf } from './settings.ts'
import { type IngestTeamConfig, type TeamConfig, teamOf, teamShape } from './team.ts'
import { type AlertConfig, alertsOf, checkedDatabaseUrl, durations } from './urls.ts'

export type { IngestTeamConfig, TeamConfig } from './team.ts'
export type { AlertConfig } from './urls.ts'

export interface Config {
  /** Null: the embedded server in `dataDir`. */
  readonly databaseUrl: string | null
  readonly dataDir: string
  readonly inboxDays: number
  /** Null: superseded payloads are kept for ever. */
  readonly historyDays: number | null
  /** Null: runs, settled dead letters and deliveries are kept for ever. */
  readonly runDays: number | null
  readonly webhookHost: string
  readonly webhookPort: number
  /** Null: none. */
  readonly trustedProxies: BlockList | null
  readonly adminHost: string
  readonly adminPort: number
  readonly consoleHost: string
  readonly consolePort: number
  /** The address of the console that browsers show; null: that of host and port. */
  readonly consoleUrl: string | null
  readonly consoleProxy: LoginProxy | null
  readonly consoleValues: boolean
  /** Null: no schedule. */
  readonly cron: string | null
  /** What to do about scheduled times that no process took. */
  readonly cronMissed: 'run' | 'skip'
  readonly lookbackDays: number
  /** Days between full scans of responses. */
  readonly sweepDays: number
  readonly encryptionKey: string | null
  readonly analyticsKey: string | null
  readonly logLevel: string
  /** Null: nothing is posted. */
  readonly alerts: AlertConfig | null
  /** Teams with access to the service; empty if its variables are not set: commands that do not call it still work. */
  readonly teams: readonly TeamConfig[]
  /** False if no setting names or describes a team: `default` is only assumed then. */
  readonly namesTeams: boolean
  /** All teams, including those without access to the service; never empty. */
  readonly ingestTeams: readonly IngestTeamConfig[]
}

/** Digits only: other texts that JavaScript reads as a number (`0x50`, `1e3`, a blank) are a mistake here. */
const whole = (least: number, greatest: number) =>
  z
    .string()
    .regex(/^\d{1,5}$/)
    .transform(Number)
    .pipe(z.number().min(least).max(greatest))

const port = whole(0, 65_535)

const days = (least: number) => whole(least, 3_650)

const isOrigin = (text: string) => URL.canParse(text) && /^https?:\/\/[^/?#@]+\/?$/.test(text)

/** A cron expression of five fields, or `off`. */
export const isSchedule = (text: string) =>
  text === 'off' || (/^(?:\S+\s+){4}\S+$/.test(text) && isCron(text))

/** For each variable, its expected form in words, for the error, and the check. */
const VARIABLES = {
  DATABASE_URL: ['a Postgres connection string (postgres://…)', z.string().regex(/^postgres(?:ql)?:\/\//)],
  INTAKE_ALLOW_HTTP: ['1 or 0', z.enum(['0', '1'])],
  INTAKE_ALLOW_INSECURE_DATABASE: ['1 or 0', z.enum(['0', '1'])],
  INTAKE_DATA_DIR: ['a folder', z.string()],
  INTAKE_INBOX_DAYS: ['a whole number of days from 1', days(1)],
  INTAKE_HISTORY_DAYS: ['a whole number of days from 1, or off', z.literal('off').or(days(1))],
  INTAKE_RUN_DAYS: ['a whole number of days from 1, or off', z.literal('off').or(days(1))],
  INTAKE_WEBHOOK_HOST: ['a host name or address', z.string()],
  INTAKE_WEBHOOK_PORT: ['a port number from 0 to 65535', port],
  INTAKE_TRUSTED_PROXIES: ['addresses or networks, comma-separated (10.0.0.0/8)', proxies],
  INTAKE_ADMIN_HOST: ['a host name or address', z.string()],
  INTAKE_ADMIN_PORT: ['a port number from 0 to 65535', port],
  INTAKE_CONSOLE_HOST: ['a host name or address', z.string()],
  INTAKE_CONSOLE_PORT: ['a port number from 0 to 65535', port],
  INTAKE_CONSOLE_URL: ['an http(s) URL without a path', z.string().refine(isOrigin)],
  ...CONSOLE_PROXY,
  INTAKE_CONSOLE_VALUES: ['1 or 0', z.enum(['0', '1'])],
  INTAKE_CRON: ['a cron expression of five fields, or off', z.string().refine(isSchedule)],
  INTAKE_CRON_MISSED: ['run or skip', z.enum(['run', 'skip'])],
  INTAKE_LOOKBACK_DAYS: ['a whole number of days', days(0)],
  INTAKE_SWEEP_DAYS: ['a whole number of days', days(0)],
  INTAKE_ENCRYPTION_KEY: ['32 bytes in base64', z.string().regex(/^[\w+/-]{43}=?$/)],
  INTAKE_ANALYTICS_KEY: ['at least 16 characters', z.string().min(16)],
  INTAKE_ALERT_URL: ['an http(s) URL', z.string()],
  INTAKE_ALERT_SECRET: ['at least 16 characters', z.string().min(16)],
  INTAKE_ALERT_INBOX_AGE: ['a duration, as 90s, 5m or 2h', durations.inboxAge],
  INTAKE_ALERT_MAX_AGE: ['a duration, as 26h or 8d, or off', durations.maxAge],
  LOG_LEVEL: [
    'trace, debug, info, warn, error, fatal or silent',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']),
  ],
} as const satisfies Record<string, readonly [string, z.ZodType]>

type Variables = typeof VARIABLES

/** Reads the configuration from `env`, its teams from `document` if there is one. Throws `UsageError`. */
export function readConfig(env: NodeJS.ProcessEnv, document?: object): Config {
  const settings = settingsOf(env)
  const value = <Name extends keyof Variables>(name: Name): z.infer<Variables[Name][1]> | null =>
    read(settings, name)
  const databaseUrl = value('DATABASE_URL')
  const allowInsecure = value('INTAKE_ALLOW_INSECURE_DATABASE') === '1'
  const cron = value('INTAKE_CRON') ?? '0 2 * * *'
  const teams = document === undefined ? teamsOf(settings) : teamsOfDocument(document, settings)
  return Object.freeze({
    databaseUrl: databaseUrl === null ? null : checkedDatabaseUrl(databaseUrl, allowInsecure),
    dataDir: value('INTAKE_DATA_DIR') ?? '.intake-sync',
    inboxDays: value('INTAKE_INBOX_DAYS') ?? 30,
    historyDays: daysOrNull(value('INTAKE_HISTORY_DAYS')),
    runDays: daysOrNull(value('INTAKE_RUN_DAYS')),
    webhookHost: value('INTAKE_WEBHOOK_HOST') ?? '127.0.0.1',
    webhookPort: value('INTAKE_WEBHOOK_PORT') ?? 8080,
    trustedProxies: value('INTAKE_TRUSTED_PROXIES') ?? null,
    adminHost: value('INTAKE_ADMIN_HOST') ?? '127.0.0.1',
    adminPort: value('INTAKE_ADMIN_PORT') ?? 9090,
    consoleHost: value('INTAKE_CONSOLE_HOST') ?? '127.0.0.1',
    consolePort: value('INTAKE_CONSOLE_PORT') ?? 9091,
    consoleUrl: value('INTAKE_CONSOLE_URL'),
    consoleProxy: consoleProxyOf(value),
    consoleValues: value('INTAKE_CONSOLE_VALUES') === '1',
    cron: cron === 'off' ? null : cron,
    cronMissed: value('INTAKE_CRON_MISSED') ?? 'skip',
    lookbackDays: value('INTAKE_LOOKBACK_DAYS') ?? 2,
    sweepDays: value('INTAKE_SWEEP_DAYS') ?? 7,
    encryptionKey: value('INTAKE_ENCRYPTION_KEY'),
    analyticsKey: value('INTAKE_ANALYTICS_KEY'),
    logLevel: value('LOG_LEVEL') ?? 'info',
    alerts: alertsOf({
      url: value('INTAKE_ALERT_URL'),
      secret: value('INTAKE_ALERT_SECRET'),
      inboxSeconds: value('INTAKE_ALERT_INBOX_AGE'),
      maxAge: value('INTAKE_ALERT_MAX_AGE'),
      allowHttp: value('INTAKE_ALLOW_HTTP') === '1',
    }),
    teams: Object.freeze(teams.filter(isReachable)),
    namesTeams: TEAM_SETTINGS.some((name) => (settings.get(name) ?? '') !== ''),
    ingestTeams: Object.freeze(
      teams.map(({ name, webhookSecrets }) => Object.freeze({ name, webhookSecrets })),
    ),
  })
}

/** Longer than a year, so that a year is compared with the one before. */
const KEPT_DAYS = 400

function daysOrNull(value: number | 'off' | null): number | null {
  return value === 'off' ? null : (value ?? KEPT_DAYS)
}

function read<Name extends keyof Variables>(
  settings: Settings,
  name: Name,
): z.infer<Variables[Name][1]> | null {
  const text = settings.get(name)
  if (text === null || text === '') return null
  const [expected, check] = VARIABLES[name]
  const result = check.safeParse(text)
  if (result.success) return result.data as z.infer<Variables[Name][1]>
  throw new UsageError(`${name} is not ${expected}`, `set ${name} to ${expected}`, name)
}

function isReachable(team: TeamConfig | IngestTeamConfig): team is TeamConfig {
  return 'baseUrl' in team
}

const TEAM_VARIABLES: Readonly<Record<string, string>> = {
  name: 'INTAKE_TEAM',
  baseUrl: 'INTAKE_BASE_URL',
  apiKey: 'INTAKE_API_KEY',
  apiSecret: 'INTAKE_API_SECRET',
}

/** Variables that name or describe a team. */
const TEAM_SETTINGS = [
  'INTAKE_CONFIG',
  'INTAKE_TEAM',
  'INTAKE_BASE_URL',
  'INTAKE_API_KEY',
  'INTAKE_API_SECRET',
  'INTAKE_WEBHOOK_SECRETS',
] as const

/** The teams of the configuration file, else the one that the environment describes. */
function teamsOf(settings: Settings): readonly (TeamConfig | IngestTeamConfig)[] {
  const file = settings.get('INTAKE_CONFIG')
  if (file !== null && file !== '') return readTeamsFile(file, settings)
  const name = settings.get('INTAKE_TEAM') || undefined
  if (name !== undefined && !teamShape.shape.name.safeParse(name).success) {
    throw new UsageError(
      'INTAKE_TEAM is not a name',
      'use letters, digits, dot, dash and underscore',
      'INTAKE_TEAM',
    )
  }
  const given = teamShape.parse({
    name,
    baseUrl: settings.get('INTAKE_BASE_URL') || undefined,
    apiKey: settings.get('INTAKE_API_KEY') || undefined,
    apiSecret: settings.get('INTAKE_API_SECRET') || undefined,
    webhookSecrets: (settings.get('INTAKE_WEBHOOK_SECRETS') ?? '')
      .split(',')
      .map((secret) => secret.trim())
      .filter((secret) => secret !== ''),
  })
  return [teamOf(given, settings, (key) => TEAM_VARIABLES[key] ?? `INTAKE_${key.toUpperCase()}`)]
}

/** The teams, or an error that names the missing variables: for commands that call the service. */
export function requireTeams(config: Config, name?: string): readonly TeamConfig[] {
  const { teams, ingestTeams } = config
  if (teams.length === 0 && ingestTeams.length === 1) {
    throw new UsageError(
      'INTAKE_BASE_URL, INTAKE_API_KEY and INTAKE_API_SECRET are not set',
      'set the three, or INTAKE_CONFIG for several teams; `intake-sync emulator` prints a set to try with',
      'INTAKE_BASE_URL',
      'setting_missing',
    )
  }
  const names = selectTeams(ingestTeams, name, 'configuration').map((team) => team.name)
  const without = names.filter((one) => !teams.some((team) => team.name === one))
  if (without.length === 0) return teams.filter((team) => names.includes(team.name))
  throw new UsageError(
    `INTAKE_CONFIG: no baseUrl, apiKey and apiSecret for ${without.join(', ')}`,
    'set the three, or name a team that has them with --team',
    'INTAKE_CONFIG',
    'setting_missing',
  )
}
