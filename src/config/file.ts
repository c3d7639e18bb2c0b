/**
 * The configuration file of one or several teams: `INTAKE_CONFIG`, or intake-sync.json. Invariant: an error names the
 * place in the file, never a value.
 */
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'
import { CONFIG_FILE, printableKey, readSetting, SETTINGS, type Settings } from './settings.ts'
import { type IngestTeamConfig, type TeamConfig, teamOf, teamShape } from './team.ts'

/** Settings that the teams of the file take the place of. */
const OF_TEAMS = /^INTAKE_(?:CONFIG|TEAM|BASE_URL|API_KEY|API_SECRET|WEBHOOK_SECRETS)$/

const sharedNames = Object.keys(SETTINGS).filter((name) => !OF_TEAMS.test(name))

const fileShape = z.strictObject({
  $schema: z.string().optional(),
  settings: z
    .strictObject(Object.fromEntries(sharedNames.map((name) => [name, z.string().min(1).optional()])))
    .optional(),
  teams: z.array(teamShape).min(1),
})

/** For editors: completion and checks while the file is written. */
export function teamsFileSchema(): unknown {
  return {
    ...z.toJSONSchema(fileShape, { io: 'input' }),
    title: 'intake-sync.json: settings and teams of intake-sync',
  }
}

export function readTeamsFile(path: string, settings: Settings): readonly (TeamConfig | IngestTeamConfig)[] {
  return teamsOfDocument(parse(readSetting('INTAKE_CONFIG', path)), settings)
}

/** The teams of a document of that file. */
export function teamsOfDocument(
  content: unknown,
  settings: Settings,
): readonly (TeamConfig | IngestTeamConfig)[] {
  const result = fileShape.safeParse(resolved(content, settings, ''))
  if (!result.success) {
    const issue = result.error.issues[0]
    const place = issue?.path.map(printableKey).join('.') || 'the file'
    const keys = issue?.code === 'unrecognized_keys' ? ` (${issue.keys.map(printableKey).join(', ')})` : ''
    throw wrong(`${place}: ${issue?.code.replaceAll('_', ' ') ?? 'not as expected'}${keys}`)
  }
  const ignored = Object.keys(result.data.settings ?? {}).find((name) => (settings.get(name) ?? '') === '')
  if (ignored !== undefined) throw notRead(ignored)
  const teams = result.data.teams.map((team, index) =>
    teamOf(team, settings, (key) => `INTAKE_CONFIG teams.${index}.${key}`),
  )
  const names = teams.map((team) => team.name)
  if (new Set(names).size < names.length) throw wrong('two teams have the same name')
  return teams
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw wrong('not JSON')
  }
}

/** A copy in which every `"env:NAME"` and `"file:PATH"` is replaced by the value that it names. */
function resolved(value: unknown, settings: Settings, path: string): unknown {
  if (typeof value === 'string') return resolvedText(value, settings, path)
  if (Array.isArray(value)) return value.map((item, index) => resolved(item, settings, `${path}.${index}`))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      resolved(item, settings, `${path}.${printableKey(key)}`),
    ]),
  )
}

function resolvedText(text: string, settings: Settings, path: string): string {
  if (text.startsWith('file:')) return readSetting(`INTAKE_CONFIG ${path.slice(1)}`, text.slice(5))
  if (!text.startsWith('env:')) return text
  const value = settings.get(text.slice(4))
  if (value === null || value === '') throw wrong(`${path.slice(1)} names a variable that is not set`)
  return value
}

function wrong(what: string): UsageError {
  return new UsageError(
    `INTAKE_CONFIG: ${what}`,
    'write {"settings":{"DATABASE_URL",…},"teams":[{"name","baseUrl","apiKey","apiSecret","webhookSecrets","timezone","rateLimit","paths","bodyKeys","pageSize"}]}',
    'INTAKE_CONFIG',
  )
}

/** Settings of the file would be ignored: only the settings file has those of every command. */
function notRead(name: string): UsageError {
  return new UsageError(
    `INTAKE_CONFIG: settings.${name} is not read, because the file is not the settings file`,
    `name the file in INTAKE_ENV_FILE in place of INTAKE_CONFIG, or call it ${CONFIG_FILE} in the working directory, without an intake-sync.env`,
    'INTAKE_CONFIG',
  )
}
