/**
 * `intake-sync config`: where each setting comes from, and the JSON Schema of the file of teams.
 *
 * Invariant: no secret and no connection string is shown; where the configuration is not valid, no value is, since a
 * secret may be in the wrong place.
 */
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import pg from 'pg'
import { readConfig } from '../../config/config.ts'
import { teamsFileSchema } from '../../config/file.ts'
import { printableKey, SETTINGS, settingsOf, withoutMark } from '../../config/settings.ts'
import type { Setting } from '../../console/shared.ts'
import { UsageError } from '../../core/errors.ts'
import { isObject } from '../../core/json.ts'
import { type Context, ExitCode, printJson } from '../context.ts'
import { printable } from '../printable.ts'
import { fittedTable, paragraph } from '../terminal.ts'

export function configCommand(context: Context): Command {
  const show = new Command('show')
    .description('each setting, its value and where it comes from; secrets are hidden')
    .option('--json', 'print one JSON document')
    .addHelpText('after', '\nExit 2 if the configuration is not valid. Opens neither warehouse nor service.')
    .action((options: { json?: true }) => showConfig(context, options.json === true))
  const schema = new Command('schema')
    .description('print the JSON Schema of the file that INTAKE_CONFIG names, for editors')
    .option('--json', 'the same: it is one JSON document')
    .action(() => printJson(context, teamsFileSchema()))
  return new Command('config')
    .description('the settings, and where they come from')
    .addCommand(show)
    .addCommand(schema)
}

interface Shown {
  readonly name: string
  /** Null where nothing is set, or the value may not be shown. */
  readonly value: string | null
  readonly source: 'default' | 'environment' | 'file' | 'settings_file' | 'teams_file'
  /** The file that has the value, or the variable that does. */
  readonly place: string | null
  readonly is_secret: boolean
}

function showConfig(context: Context, json: boolean): void {
  const problem = problemOf(context)
  const rows = settingsRows(context, problem === null)
  const unknown = unknownNames(context)
  const error = problem && {
    message: problem.message,
    hint: problem.hint ?? null,
    variable: problem.variable ?? null,
  }
  if (json) printJson(context, { valid: problem === null, error, settings: rows, unknown })
  else {
    const cells = rows.map((row) => [row.name, shownValue(row), shownSource(row)])
    context.stdout.write(fittedTable(context, [['setting', 'value', 'from'], ...cells], 2))
    for (const name of unknown)
      context.stdout.write(paragraph(context, `${name} is set, and is no setting of this version`, 0))
  }
  if (problem === null) return
  if (!json) throw problem
  throw new ExitCode(2)
}

function settingsRows(context: Context, valid: boolean): readonly Shown[] {
  return [
    ...Object.keys(SETTINGS).map((name) => settingOf(context, name, valid)),
    ...teamSettings(context, valid),
  ]
}

/** Each setting of a valid configuration, as `config show` prints it. */
export function shownSettings(context: Context): readonly Setting[] {
  return settingsRows(context, true).map((row) => ({
    name: row.name,
    value: shownValue(row),
    from: shownSource(row),
  }))
}

function problemOf({ env }: Context): UsageError | null {
  try {
    readConfig(env)
    return null
  } catch (error) {
    if (error instanceof UsageError) return error
    throw error
  }
}

function settingOf(context: Context, name: string, valid: boolean): Shown {
  const { env, envFile } = context
  const { without, secret } = SETTINGS[name]!
  const by = [`${name}_FILE`, name].find((each) => (env[each] ?? '') !== '')
  const is_secret = secret === true
  // An empty version is a setting of its own: none is sent.
  if (by === undefined && !(name === 'INTAKE_API_VERSION' && env[name] === ''))
    return { name, value: without, source: 'default', place: null, is_secret }
  const variable = by ?? name
  const inFile = envFile?.values[variable] !== undefined && envFile.values[variable] === env[variable]
  const value = valid ? textOf(name, env) : null
  if (variable !== name)
    return { name, value, source: 'file', place: `${variable}=${env[variable]}`, is_secret }
  return inFile
    ? { name, value, source: 'settings_file', place: envFile.path, is_secret }
    : { name, value, source: 'environment', place: variable, is_secret }
}

function textOf(name: string, env: NodeJS.ProcessEnv): string | null {
  const text = settingsOf(env).get(name) ?? ''
  if (name === 'DATABASE_URL') {
    const { host, port, database } = new pg.Client({ connectionString: text })
    return `${database ?? 'the login’s database'} at ${host}:${port}`
  }
  if (name === 'INTAKE_ALERT_URL') return new URL(text).origin
  return SETTINGS[name]!.secret ? null : text
}

/** Names of settings that a file of teams has in place of variables; those of secrets among them. */
const TEAM_SECRETS: ReadonlySet<string> = new Set(['apiKey', 'apiSecret', 'webhookSecrets'])

/** The teams of the file, as it is written. */
function teamSettings({ env }: Context, valid: boolean): readonly Shown[] {
  const path = valid ? settingsOf(env).get('INTAKE_CONFIG') : null
  if (path === null || path === '') return []
  const { teams } = JSON.parse(withoutMark(readFileSync(path, 'utf8'))) as { teams: object[] }
  return teams.flatMap((team, at) =>
    Object.entries(team).map(([key, value]: [string, unknown]): Shown => {
      const refers = typeof value === 'string' && /^(?:env|file):/.test(value)
      const is_secret = TEAM_SECRETS.has(key)
      const text = isObject(value) ? JSON.stringify(value) : String(value)
      return {
        name: `teams.${at}.${printableKey(key)}`,
        value: is_secret || refers ? null : text,
        source: 'teams_file',
        place: refers ? value : path,
        is_secret,
      }
    }),
  )
}

/** Variables that look like ours: a mistyped one would be ignored. */
function unknownNames({ env }: Context): readonly string[] {
  const known = new Set([...Object.keys(SETTINGS), 'INTAKE_ENV_FILE'])
  return Object.keys(env)
    .filter((name) => /^INTAKE_[A-Z_]+$/.test(name) && (env[name] ?? '') !== '')
    .filter((name) => !known.has(name.replace(/_FILE$/, '')) && !known.has(name))
    .sort()
}

function shownValue({ value, source, is_secret }: Shown): string {
  if (value !== null) return printable(value)
  if (source === 'default') return '-'
  return is_secret ? '(hidden)' : '(not shown)'
}

function shownSource({ source, place }: Shown): string {
  return place === null || source === 'environment' ? source : printable(place)
}
