/**
 * Visible escapes for values that Postgres cannot store (law 4): NUL and lone surrogates as `\u0000` and
 * `\ud83d`, bytes that were not UTF-8 as `\x96`, numbers beyond `numeric` as text.
 *
 * Invariant: the result of `storable` can be stored as jsonb and as text by every Postgres; each place that was
 * rewritten is reported with its path; a value with nothing to rewrite is returned unchanged.
 */
import { isWithinNumeric } from './canonical.ts'
import type { Problem } from './envelope.ts'
import { isLosslessNumber, isObject } from './json.ts'

const UNSTORABLE = /\u0000|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Quick test on a record's canonical text: false means that `storable` would change nothing. */
export function maybeUnstorable(canonical: string): boolean {
  // Canonical text contains `\\u` for control characters, lone surrogates and numbers beyond numeric only.
  return canonical.includes('\\u')
}

/** Text that Postgres can store; `invalidUtf8` says that lone surrogates U+DC80…U+DCFF stand for bytes. */
export function storableText(text: string, invalidUtf8: boolean): string {
  return text.replace(UNSTORABLE, (unit) => {
    const code = unit.charCodeAt(0)
    if (invalidUtf8 && code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`
    return `\\u${code.toString(16).padStart(4, '0')}`
  })
}

/** A copy of `value` that Postgres can store; adds one problem for each place that was rewritten. */
export function storable(value: unknown, invalidUtf8: boolean, problems: Problem[], path = ''): unknown {
  if (typeof value === 'string') {
    const text = storableText(value, invalidUtf8)
    if (text !== value)
      problems.push({ path, reason: 'holds what Postgres cannot; written visibly', original: text })
    return text
  }
  if (isLosslessNumber(value)) {
    if (isWithinNumeric(value.value)) return value
    problems.push({
      path,
      reason: 'a number beyond what Postgres can hold; kept as text',
      original: value.value,
    })
    return value.value
  }
  if (Array.isArray(value))
    return value.map((item, at) => storable(item, invalidUtf8, problems, `${path}[${at}]`))
  if (!isObject(value)) return value
  return storableObject(value, invalidUtf8, problems, path)
}

function storableObject(value: object, invalidUtf8: boolean, problems: Problem[], path: string): unknown {
  const keys = Object.keys(value)
  const names = storableNames(keys, invalidUtf8)
  const entries = keys.map((key): [string, unknown] => {
    const name = names?.get(key) ?? key
    const itemPath = path === '' ? name : `${path}.${name}`
    if (name !== key) {
      problems.push({
        path: itemPath,
        reason: 'a field name that Postgres cannot hold; written visibly',
        original: name,
      })
    }
    return [name, storable((value as Record<string, unknown>)[key], invalidUtf8, problems, itemPath)]
  })
  return Object.fromEntries(entries)
}

/**
 * Unique replacements for the keys that cannot be stored, independent of the order of the keys. Null when all can be
 * stored.
 */
function storableNames(keys: readonly string[], invalidUtf8: boolean): ReadonlyMap<string, string> | null {
  const unfit = keys.filter((key) => storableText(key, invalidUtf8) !== key)
  if (unfit.length === 0) return null
  const taken = new Set(keys)
  const names = new Map<string, string>()
  for (const key of unfit.sort()) {
    let name = storableText(key, invalidUtf8)
    while (taken.has(name)) name += "'"
    taken.add(name)
    names.set(key, name)
  }
  return names
}
