/** The configuration file of several teams, `INTAKE_CONFIG`. Invariant: an error names the place in the file, never a value. */
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'
import { printableKey, readSetting, type Settings } from './settings.ts'
import { type IngestTeamConfig, type TeamConfig, teamOf, teamShape } from './team.ts'

const fileShape = z.strictObject({ $schema: z.string().optional(), teams: z.array(teamShape).min(1) })

/** For editors: completion and checks while the file is written. */
export function teamsFileSchema(): unknown {
  return {
    ...z.toJSONSchema(fileShape, { io: 'input' }),
    title: 'intake-sync.json, the file of INTAKE_CONFIG',
  }
}

export function readTeamsFile(path: string, settings: Settings): readonly (TeamConfig | IngestTeamConfig)[] {
  const content = parse(readSetting('INTAKE_CONFIG', path))
  const result = fileShape.safeParse(resolved(content, settings, ''))
  if (!result.success) {
    const issue = result.error.issues[0]
    const place = issue?.path.map(printableKey).join('.') || 'the file'
    const keys = issue?.code === 'unrecognized_keys' ? ` (${issue.keys.map(printableKey).join(', ')})` : ''
    throw wrong(`${place}: ${issue?.code.replaceAll('_', ' ') ?? 'not as expected'}${keys}`)
  }
  const teams = result.data.teams.map((team, index) =>
    teamOf(team, settings, (key) => `INTAKE_CONFIG teams.${index}.${key}`),
  )
  const names = teams.map((team) => team.name)
  if (new Set(names).size < names.length) throw wrong('two teams have the same name')
  return teams
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''))
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
    'write {"teams":[{"name","baseUrl","apiKey","apiSecret","webhookSecrets","timezone","rateLimit","paths","bodyKeys","pageSize"}]}',
    'INTAKE_CONFIG',
  )
}
