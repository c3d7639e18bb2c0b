/**
 * Text of a file whose encoding nobody wrote down.
 *
 * Invariant: a file of valid UTF-8 is read as that, with or without a byte order mark; any other as Windows-1252,
 * which gives every byte a character.
 */
import { isUtf8 } from 'node:buffer'
import { readFileSync } from 'node:fs'

export function readText(file: string): string {
  const bytes = readFileSync(file)
  const text = isUtf8(bytes) ? bytes.toString('utf8') : new TextDecoder('windows-1252').decode(bytes)
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}
