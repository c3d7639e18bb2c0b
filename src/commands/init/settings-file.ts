/**
 * The settings file that `init` writes: `NAME=value` lines that this program, a shell, systemd and Docker read alike, or
 * JSON where its name ends so.
 *
 * Invariant: only its owner can read it; lines that need no change stay as they are, comments included; a difference
 * never shows a secret.
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseEnv } from 'node:util'
import { type Config, readConfig } from '../../config/config.ts'
import { teamsFileSchema } from '../../config/file.ts'
import { SETTINGS, withoutMark } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'
import {
  configOf,
  type Difference,
  editedDocument,
  isJson,
  parseDocument,
  placeOf,
  type Settings,
  settingsIn,
  sharedOf,
} from './settings-json.ts'

export function readSettingsFile(path: string): Settings {
  if (isJson(path)) return settingsIn(documentAt(path), path)
  if (!existsSync(path)) return {}
  const values = parseEnv(withoutMark(readFileSync(path, 'utf8')))
  return Object.fromEntries(Object.entries(values).flatMap(([name, value]) => (value ? [[name, value]] : [])))
}

function documentAt(path: string): object {
  return existsSync(path) ? parseDocument(readFileSync(path, 'utf8')) : {}
}

/** The configuration that commands will read from the file, in an environment without these settings. */
export function configWith(path: string, settings: Settings, env: NodeJS.ProcessEnv): Config {
  return isJson(path) ? configOf(documentWith(path, settings), env) : readConfig({ ...env, ...settings })
}

/** The variables of that configuration, once the file is written. */
export function variablesWith(path: string, settings: Settings, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  if (!isJson(path)) return settings
  return { ...sharedOf(documentWith(path, settings), env), INTAKE_CONFIG: path }
}

function documentWith(path: string, settings: Settings): object {
  const document = documentAt(path)
  return editedDocument(document, differences(settingsIn(document, path), settings))
}

/** `over` counts more; a NAME takes the place of a NAME_FILE, and the other way round. */
export function merged(under: Settings, over: Settings): Settings {
  const replaced = new Set(Object.keys(over).map((name) => name.replace(/_FILE$/, '')))
  const kept = Object.entries(under).filter(([name]) => !replaced.has(name.replace(/_FILE$/, '')))
  return { ...Object.fromEntries(kept), ...over }
}

export function differences(before: Settings, after: Settings): readonly Difference[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  return names
    .map((name) => ({ name, before: before[name] ?? null, after: after[name] ?? null }))
    .filter((each) => each.before !== each.after)
}

/** One line each, as in a diff: `+`, `-`, `~`; of JSON with the place in the file. */
export function differenceText({ name, before, after }: Difference, path: string): string {
  const shown = (value: string) => (SETTINGS[name]?.secret ? '(hidden)' : inFile(value))
  const inFile = (value: string) => (isJson(path) && name.endsWith('_FILE') ? `file:${value}` : value)
  const label = isJson(path) ? `${placeOf(name)}: ` : `${name}=`
  if (before === null) return `+ ${label}${shown(after!)}`
  if (after === null) return `- ${label}${shown(before)}`
  return `~ ${label}${shown(before)} → ${shown(after)}`
}

/** Writes what differs; a file without a difference is not touched. JSON gets its schema for editors next to it. */
export function writeSettingsFile(path: string, changed: readonly Difference[]): void {
  if (isJson(path)) writeSchema(dirname(path))
  if (changed.length === 0) return
  const text = isJson(path)
    ? `${JSON.stringify(editedDocument(documentAt(path), changed), null, 2)}\n`
    : linesWith(path, changed)
  // A reader sees the file as it was or as it is, and never one that others may read.
  const draft = `${path}.new`
  rmSync(draft, { force: true })
  writeFileSync(draft, text, { mode: 0o600, flag: 'wx' })
  renameSync(draft, path)
}

function writeSchema(folder: string): void {
  const path = join(folder, 'intake-sync.schema.json')
  const text = `${JSON.stringify(teamsFileSchema(), null, 2)}\n`
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text)
}

function linesWith(path: string, changed: readonly Difference[]): string {
  const lines = existsSync(path) ? withoutMark(readFileSync(path, 'utf8')).split('\n') : [HEADER]
  if (lines.at(-1) === '') lines.pop()
  for (const { name, after } of changed) {
    const at = lines.findIndex((line) => new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(line))
    const line = after === null ? [] : [`${name}=${quoted(name, after)}`]
    if (at >= 0) lines.splice(at, 1, ...line)
    else lines.push(...line)
  }
  return `${lines.join('\n')}\n`
}

const HEADER = '# Settings of intake-sync, written by intake-sync init. Keep it readable only for its owner.'

function quoted(name: string, value: string): string {
  if (/^[\w./:@%+,=-]*$/.test(value)) return value
  if (!/['\n\r]/.test(value)) return `'${value}'`
  throw new UsageError(
    `${name} holds a quote or a line end, which not every reader of the file understands`,
    `put the value into a file of its own, and set ${name}_FILE to its path`,
    name,
  )
}
