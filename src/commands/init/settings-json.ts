/**
 * The settings file as JSON: `{"$schema", "settings", "teams"}`. Read and changed under the names of variables, so that
 * `init` treats both kinds of file alike; `NAME_FILE=PATH` is `"file:PATH"` there.
 *
 * Invariant: a key that needs no change stays as it is, those that no variable has included.
 */
import { type Config, readConfig } from '../../config/config.ts'
import { settingOfText, settingsOfDocument, withoutMark } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'
import { isObject } from '../../core/json.ts'

export type Settings = Readonly<Record<string, string>>

export interface Difference {
  readonly name: string
  /** Null for an added one. */
  readonly before: string | null
  /** Null for a removed one. */
  readonly after: string | null
}

/** The keys of a team that variables have as well. */
const TEAM_KEYS: Readonly<Record<string, string>> = {
  INTAKE_TEAM: 'name',
  INTAKE_BASE_URL: 'baseUrl',
  INTAKE_API_KEY: 'apiKey',
  INTAKE_API_SECRET: 'apiSecret',
  INTAKE_API_VERSION: 'apiVersion',
  INTAKE_TIMEZONE: 'timezone',
  INTAKE_RATE_LIMIT: 'rateLimit',
  INTAKE_WEBHOOK_SECRETS: 'webhookSecrets',
}

const SCHEMA = './intake-sync.schema.json'

export const isJson = (path: string): boolean => path.endsWith('.json')

/** Throws `UsageError`, which shows nothing of the text. */
export function parseDocument(text: string): object {
  try {
    const document: unknown = JSON.parse(withoutMark(text))
    if (isObject(document)) return document
  } catch {
    // Reported below.
  }
  throw new UsageError('the settings file is not a JSON object', 'correct it, or name another file', '--file')
}

/** The settings of a document. Those of several teams have no names of variables, and `INTAKE_CONFIG` is set instead. */
export function settingsIn(document: object, path: string): Settings {
  const shared = Object.entries(settingsOfDocument(document)).map(([name, text]) => flat(name, text))
  const teams = teamsIn(document)
  if (teams.length > 1) return Object.fromEntries([...shared, ['INTAKE_CONFIG', path]])
  const own = Object.entries(TEAM_KEYS).flatMap(([name, key]) => {
    const value = teams[0]?.[key]
    const text = Array.isArray(value) ? value.join(',') : value
    return typeof text === 'string' && text !== '' ? [flat(name, text)] : []
  })
  return Object.fromEntries([...shared, ...own])
}

function flat(name: string, text: string): [string, string] {
  return text.startsWith('file:') ? [`${name}_FILE`, text.slice(5)] : [name, text]
}

function teamsIn(document: object): readonly Record<string, unknown>[] {
  const { teams } = document as { teams?: unknown }
  return Array.isArray(teams) ? teams.filter(isObject) : []
}

/** `document` with what differs. Throws `UsageError` for a setting that one of several teams would have. */
export function editedDocument(document: object, changed: readonly Difference[]): object {
  const { $schema = SCHEMA, settings: _, teams: __, ...rest } = document as Record<string, unknown>
  const settings: Record<string, unknown> = { ...settingsOfDocument(document) }
  const [first = {}, ...others] = teamsIn(document).map((team) => ({ ...team }) as Record<string, unknown>)
  // First what is removed: NAME may take the place of NAME_FILE, which has the same key.
  for (const { name, after } of changed.toSorted(
    (one, two) => Number(one.after !== null) - Number(two.after !== null),
  )) {
    const plain = name.replace(/_FILE$/, '')
    const text = after !== null && plain !== name ? `file:${after}` : after
    const key = TEAM_KEYS[plain]
    if (plain === 'INTAKE_CONFIG') throw anotherFile()
    if (key === undefined) put(settings, plain, text)
    else if (others.length > 0) throw severalTeams(name)
    else
      put(first, key, key === 'webhookSecrets' ? (text?.split(',').map((each) => each.trim()) ?? null) : text)
  }
  return { $schema, ...rest, settings, teams: [first, ...others] }
}

function put(target: Record<string, unknown>, key: string, value: unknown): void {
  if (value === null) delete target[key]
  else target[key] = value
}

function anotherFile(): UsageError {
  return new UsageError(
    'INTAKE_CONFIG names a file of teams, and the settings file has teams itself',
    'unset INTAKE_CONFIG, or name that file with --file',
    'INTAKE_CONFIG',
  )
}

function severalTeams(name: string): UsageError {
  return new UsageError(
    `${name}: the settings file has several teams, and this belongs to one of them`,
    'change the team in the file, and run intake-sync init without this setting',
    '--file',
  )
}

/** Where a setting is in the file. */
export function placeOf(name: string): string {
  const plain = name.replace(/_FILE$/, '')
  return TEAM_KEYS[plain] === undefined ? `settings.${plain}` : `teams.0.${TEAM_KEYS[plain]}`
}

/** The configuration that commands will read from the document, in an environment without these settings. */
export function configOf(document: object, env: NodeJS.ProcessEnv): Config {
  return readConfig({ ...env, ...sharedOf(document, env) }, document)
}

/** The shared settings as the environment of commands has them. */
export function sharedOf(document: object, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const entries = Object.entries(settingsOfDocument(document))
  return Object.fromEntries(entries.flatMap(([name, text]) => Object.entries(settingOfText(name, text, env))))
}
