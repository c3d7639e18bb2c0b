/**
 * Fingerprints of pages, to detect repeated ones.
 *
 * Invariant: two pages have the same fingerprint only if they contain the same ids in the same order (the same records,
 * where records have no id or may share one). A fingerprint has 22 characters, whatever the size of the page.
 */
import { createHash } from 'node:crypto'
import { isLosslessNumber, isObject } from '../../core/json.ts'

export function fingerprintOf(records: readonly unknown[], idsRepeat = false): string {
  const marks = records.map((record) => {
    const id = isObject(record) && !idsRepeat ? (record.id ?? record.uid) : undefined
    if (typeof id === 'string') return `s${id}`
    if (typeof id === 'number' || isLosslessNumber(id)) return `n${id}`
    return `r${JSON.stringify(record)}`
  })
  return createHash('sha256').update(JSON.stringify(marks)).digest('base64').slice(0, 22)
}
