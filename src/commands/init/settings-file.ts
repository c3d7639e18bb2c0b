/**
 * The settings file that `init` writes: `NAME=value` lines that this program, a shell, systemd and Docker read alike.
 *
 * Invariant: only its owner can read it; lines that need no change stay as they are, comments included; a difference
 * never shows a secret.
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { SETTINGS } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'

export type Settings = Readonly<Record<string, string>>

export interface Difference {
  readonly name: string
  /** Null for an added one. */
  readonly before: string | null
  /** Null for a removed one. */
  readonly after: string | null
}

export function readSettingsFile(path: string): Settings {
  if (!existsSync(path)) return {}
  const values = parseEnv(readFileSync(path, 'utf8'))
  return Object.fromEntries(Object.entries(values).flatMap(([name, value]) => (value ? [[name, value]] : [])))
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

/** One line each, as in a diff: `+`, `-`, `~`. */
export function differenceText({ name, before, after }: Difference): string {
  const shown = (value: string) => (SETTINGS[name]?.secret ? '(hidden)' : value)
  if (before === null) return `+ ${name}=${shown(after!)}`
  if (after === null) return `- ${name}=${shown(before)}`
  return `~ ${name}=${shown(before)} → ${shown(after)}`
}

/** Writes what differs; a file without a difference is not touched. */
export function writeSettingsFile(path: string, changed: readonly Difference[]): void {
  if (changed.length === 0) return
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [HEADER, '']
  if (lines.at(-1) === '') lines.pop()
  for (const { name, after } of changed) {
    const at = lines.findIndex((line) => new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(line))
    const line = after === null ? [] : [`${name}=${quoted(name, after)}`]
    if (at >= 0) lines.splice(at, 1, ...line)
    else lines.push(...line)
  }
  // A reader sees the file as it was or as it is, and never one that others may read.
  const draft = `${path}.new`
  rmSync(draft, { force: true })
  writeFileSync(draft, `${lines.join('\n')}\n`, { mode: 0o600, flag: 'wx' })
  renameSync(draft, path)
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
