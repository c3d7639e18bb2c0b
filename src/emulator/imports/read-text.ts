/**
 * Reads a text file of unknown encoding.
 *
 * Invariant: a file of valid UTF-8 is read as UTF-8, with or without a byte order mark; any other as Windows-1252,
 * in which every byte is a character. (Node 20's TextDecoder treats that name as Latin-1, hence the table.)
 */
import { isUtf8 } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { CsvError } from 'csv-parse'
import { YAMLParseError } from 'yaml'

/** The characters of bytes 0x80 to 0x9f; the five that are unassigned stay what they are in Latin-1. */
const HIGH = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ'

export function readText(file: string): string {
  const bytes = readFileSync(file)
  if (!isUtf8(bytes))
    return bytes.toString('latin1').replaceAll(/[\x80-\x9f]/g, (one) => HIGH[one.charCodeAt(0) - 0x80]!)
  const text = bytes.toString('utf8')
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

/**
 * The reason why a file could not be imported.
 *
 * Invariant: it contains nothing of the file. Messages of parsers quote their input, which can be health data.
 */
export function reasonOf(error: unknown): string {
  if (error instanceof CsvError) {
    const { code, lines } = error as CsvError & { readonly lines?: number }
    return `is not valid CSV (${code}${lines === undefined ? '' : `, line ${lines}`})`
  }
  if (error instanceof YAMLParseError) {
    const line = error.linePos?.[0].line
    return `is not valid YAML (${error.code}${line === undefined ? '' : `, line ${line}`})`
  }
  if (error instanceof SyntaxError) return 'is not valid JSON'
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''
}
