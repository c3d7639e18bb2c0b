/**
 * Where the public data lie that the imports are tried with. They are not part of the project; where they are absent
 * the tests that need them are skipped and say why.
 */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'

const folder = process.env.INTAKE_TEST_DATA ?? resolve(import.meta.dirname, '../../../shared/data')

/** The path of a file or folder of the public data. */
export function realData(path: string): string {
  return join(folder, path)
}

export const realDataMissing = !existsSync(folder)
export const reasonWhenMissing = realDataMissing ? ' (skipped: no public data; set INTAKE_TEST_DATA)' : ''
