/**
 * Recognizes the entries of a list by their bytes, so that an entry that was read before is not parsed again.
 *
 *     page ─► bytes of its entries ─┬─► known ─► id and content hash, compared with the stored record (batcher)
 *                                   └─► unknown ─► parsed, read, and noted for the next scan
 *
 * Invariant: a known entry has the content hash that the same bytes gave the same reader. It says nothing about whether
 * the record is stored. So writers of records need not remove anything here, and a row that is missing, old or from a
 * killed scan costs only time. An entry is not noted if its reading depends on anything but its bytes.
 */
import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Page } from '../../api/paging/pages.ts'
import { RawEntry } from '../../core/raw-entries.ts'
import { type Instant, laterOf } from '../../core/time.ts'
import { type Reading, type ReadRecord, readRecord } from '../../normalize/read-record.ts'
import { isPartial } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { Source } from '../source.ts'
import { RECORDS_PER_TURN } from './batcher.ts'
import { DIGITS, type KnownPage, type NotedPage, openKnownPages, part } from './known-pages.ts'

/** To be raised when the same bytes give another id, content or hash (test/extract/scan/known-entries.test.ts). */
export const READING = 1

/** Pages stored together. */
const PAGES = 20

/** Share of a page whose entries may be unknown before it is stored again: to parse so few costs less. */
const UNWRITTEN = 1 / 32

/** An entry whose bytes are known. */
export class KnownEntry {
  readonly raw: RawEntry
  readonly id: string
  /** The content hash of its record. */
  readonly hash: string
  /** A time not before its `updated_at`; null if it has none. */
  readonly updatedTo: Instant | null
  readonly bytesHash: string
  /** Number of the page where it is known. */
  readonly page: number
  constructor(raw: RawEntry, bytesHash: string, { page, ids, hashes, updatedTo }: KnownPage, at: number) {
    this.raw = raw
    this.page = page
    this.bytesHash = bytesHash
    this.id = ids[at]!
    this.hash = part(hashes, at)
    this.updatedTo = updatedTo
  }
}

export interface KnownEntries {
  /** For `PagesOptions.read`: the entries, parsed or as `KnownEntry`. Throws `SyntaxError`. */
  read(page: number, entries: readonly unknown[]): Promise<readonly unknown[]>
  /** Notes the entries of a page; `reads` has an item for each, null for a `KnownEntry`. */
  note(page: Page, reads: readonly (ReadRecord | null)[]): Promise<void>
  /** Keeps what was noted. `pages`: of the list as a whole; null if the scan did not reach its end. */
  keep(pages: number | null): Promise<void>
}

/** `recall`: false where every entry is to be parsed, and only noted. */
export async function openKnownEntries(
  source: Source,
  session: Session,
  { recall }: { readonly recall: boolean },
): Promise<KnownEntries> {
  const reader = `${READING} ${source.client.apiVersion} node ${process.versions.node}`
  /** Hashes of the bytes of entries that were parsed. */
  const parsed = new WeakMap<object, string>()
  let noted: NotedPage[] = []
  let storing = Promise.resolve()

  const stored = await openKnownPages(source, session, { reader, recall })
  /** Pages by their first entry: where entries were added or removed, the others moved. */
  const firsts = new Map([...stored.firsts].map(([page, first]) => [first, page]))

  async function send(): Promise<void> {
    const pages = noted
    noted = []
    await storing
    if (pages.length > 0) storing = stored.store(pages)
    // Awaited with the next pages, or at the end.
    storing.catch(() => {})
  }

  let last = 0
  // Not `Math.max(...)`: a list may have more pages than a call can have arguments.
  for (const page of stored.firsts.keys()) last = Math.max(last, page)

  /** The page itself, or the last one, and those whose beginning or end it now contains. */
  function pagesAround(page: number, keys: readonly (string | null)[]): readonly number[] {
    const near = new Set([Math.min(page, last)])
    for (const key of keys) {
      const moved = key === null ? undefined : firsts.get(key)
      if (moved === undefined || moved === page) continue
      near.add(moved)
      near.add(moved - 1)
    }
    return [...near].filter((each) => stored.firsts.has(each))
  }

  return {
    async read(page, entries) {
      const keys = entries.map((entry) =>
        entry instanceof RawEntry ? hash('sha256', entry.bytes, 'hex').slice(0, DIGITS) : null,
      )
      const found = await stored.load(pagesAround(page, keys))
      // Its own row first: an entry that has moved may still be in the row of its former page.
      const candidates = [...found].sort((a, b) => Number(b.page === page) - Number(a.page === page))
      return entries.map((entry, index) => {
        if (!(entry instanceof RawEntry)) return entry
        const key = keys[index]!
        for (const candidate of candidates) {
          const at = candidate.places.get(key)
          if (at !== undefined) return new KnownEntry(entry, key, candidate, at)
        }
        const value = entry.parse()
        parsed.set(value as object, key)
        return value
      })
    },
    async note({ number, records }, reads) {
      const { page, fresh } = noteOf(number, records, reads, source, parsed)
      if (fresh <= (stored.firsts.has(number) ? records.length * UNWRITTEN : 0)) return
      noted.push(page)
      if (noted.length >= PAGES) await send()
    },
    async keep(pages) {
      await send()
      await storing
      if (source.tally.erased > 0) await stored.forgetUnstored()
      await stored.settle(pages)
    },
  }
}

/** Reads the entries of a page; null for one that is known. */
export async function readPage(page: Page, reading: Reading): Promise<readonly (ReadRecord | null)[]> {
  const reads: (ReadRecord | null)[] = []
  let count = 0
  for (const value of page.records) {
    const isKnown = value instanceof KnownEntry
    // With the clock set back, a stamp may now be too far ahead.
    if (isKnown && (value.updatedTo ?? '') <= reading.observedAt) {
      reads.push(null)
      continue
    }
    count += 1
    if (count % RECORDS_PER_TURN === 0) await setImmediate()
    reads.push(readRecord(isKnown ? value.raw.parse() : value, reading))
  }
  return reads
}

/**
 * The entries of a page that may be known next time: those whose reading depends on their bytes alone. `fresh`: how many
 * of them are not known of this page.
 */
function noteOf(
  page: number,
  records: readonly unknown[],
  reads: readonly (ReadRecord | null)[],
  { stream, client }: Source,
  parsed: WeakMap<object, string>,
): { readonly page: NotedPage; readonly fresh: number } {
  const ids: string[] = []
  let [bytes, hashes, fresh] = ['', '', 0]
  let updatedTo: Instant | null = null
  const add = (key: string, id: string, contentHash: string, updatedAt: Instant | null) => {
    ids.push(id)
    bytes += key
    hashes += contentHash
    if (updatedAt !== null) updatedTo = updatedTo === null ? updatedAt : laterOf(updatedTo, updatedAt)
  }
  for (const [index, read] of reads.entries()) {
    const value = records[index]!
    if (read === null) {
      const entry = value as KnownEntry
      if (entry.page !== page) fresh += 1
      add(entry.bytesHash, entry.id, entry.hash, entry.updatedTo)
    } else if (read.kind === 'record') {
      const { id, content, updatedAt } = read.envelope
      const key = value instanceof KnownEntry ? value.bytesHash : parsed.get(value as object)
      // A stamp that is too far ahead, which is a problem, will not be so later.
      if (key === undefined || content === null || content.problems.length > 0) continue
      const { payload } = content
      // Pages are compared by their ids as they are written there.
      if (String(payload.id ?? payload.uid) !== id || id.includes('\n')) continue
      if (isPartial(stream, payload, client.apiVersion)) continue
      if (!(value instanceof KnownEntry) || value.page !== page) fresh += 1
      add(key, id, content.hash, updatedAt)
    }
  }
  return { page: { page, ids, bytes, hashes, updatedTo }, fresh }
}
