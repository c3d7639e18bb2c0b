/** Entries of a list, read and noted as a scan does; their stored pages are those of `stored-pages.ts`. */
import { createHash } from 'node:crypto'
import type { Page } from '../../../src/api/paging/pages.ts'
import { RawEntry } from '../../../src/core/raw-entries.ts'
import { type Instant, instantOf } from '../../../src/core/time.ts'
import { KnownEntry, openKnownEntries, readPage } from '../../../src/extract/scan/known-entries.ts'
import type { Source } from '../../../src/extract/source.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Stream } from '../../../src/streams/stream.ts'
import { stored } from './stored-pages.ts'

export const raw = (value: object) => new RawEntry(Buffer.from(JSON.stringify(value)))
export const keyOf = (value: object) =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 32)
export const person = (id: string, more: object = {}) => ({ id, first_name: 'A', ...more })
export const HASH = 'cd'.repeat(16)

export function store(
  page: number,
  entries: readonly { id: string }[],
  updatedTo: string | null = null,
): void {
  const keys = entries.map(keyOf)
  stored.set(page, {
    ...{ page, ids: entries.map(({ id }) => id), bytes: keys.join(''), hashes: HASH.repeat(keys.length) },
    updatedTo: updatedTo as Instant | null,
    places: new Map(keys.map((key, at) => [key, at])),
  })
}

/** When pages are read. */
export const NOW = instantOf(Date.UTC(2026, 2, 1) * 1000)

export async function open(stream: Stream = patients, { apiVersion = 'v2.1', erased = 0 } = {}) {
  const source = { stream, client: { apiVersion }, tally: { erased } } as unknown as Source
  const known = await openKnownEntries(source, {} as never, { recall: true })
  const reading = { teamId: 1, stream, origin: 'run:1', observedAt: NOW, invalidUtf8: false }
  /** Reads and notes a page as a scan does; returns the ids that were known. */
  const scan = async (number: number, entries: readonly unknown[]) => {
    const records = await known.read(number, entries)
    const page = { number, records } as unknown as Page
    await known.note(page, await readPage(page, reading))
    return records.flatMap((each) => (each instanceof KnownEntry ? each.id : []))
  }
  return { known, scan, reading }
}
