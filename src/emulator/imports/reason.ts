/**
 * The reason why a file could not be imported.
 *
 * Invariant: it contains nothing of the file. Messages of parsers quote their input, which can be health data.
 */
import { CsvError } from 'csv-parse'
import { YAMLParseError } from 'yaml'

export function reasonOf(error: unknown): string {
  if (error instanceof CsvError) {
    const { code, lines } = error as CsvError & { readonly lines?: number }
    return `is no CSV (${code}${lines === undefined ? '' : `, line ${lines}`})`
  }
  if (error instanceof YAMLParseError) {
    const line = error.linePos?.[0].line
    return `is no YAML (${error.code}${line === undefined ? '' : `, line ${line}`})`
  }
  if (error instanceof SyntaxError) return 'is no JSON'
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''
}
