/** A scan of pages that a test gives, between the neighbours of `scan-neighbours.ts`. */
import type { Page, PagesOptions } from '../../../src/api/paging/pages.ts'
import { RawEntry } from '../../../src/core/raw-entries.ts'
import { instantOf } from '../../../src/core/time.ts'
import type { BatchMode } from '../../../src/extract/scan/batcher.ts'
import { KnownEntry } from '../../../src/extract/scan/known-entries.ts'
import { type ScanRequest, scanStream } from '../../../src/extract/scan/scan.ts'
import { emptyTally, type Source } from '../../../src/extract/source.ts'
import { firstStep } from '../../../src/load/run-progress.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Stream } from '../../../src/streams/stream.ts'
import { note } from './scan-neighbours.ts'

export const BEGUN = 1_000_000_000_000_000
export const STARTED = instantOf(BEGUN)
const raw = (value: object) => new RawEntry(Buffer.from(JSON.stringify(value)))
export const person = (id: string | null, at?: string) => ({ id, first_name: 'A', ...(at && { at }) })
export const known = (id: string) =>
  new KnownEntry(
    raw(person(id)),
    'bytes',
    { page: 1, ids: [id], bytes: '', hashes: '', updatedTo: null, places: new Map() },
    0,
  )
export const page = (number: number, ...records: readonly unknown[]) =>
  ({
    ...{ number, records, count: 50, facts: `facts of ${number}`, invalidUtf8: false },
    ...{ startedAt: BEGUN + number * 1_000_000, receivedAt: BEGUN + number * 1_000_000 + 500_000 },
  }) as unknown as Page

export let asked: { path: string; options: PagesOptions }

export const SESSION = 'a session'
/** Scans these pages of a list, with this outcome. */
export async function scan(
  pages: readonly Page[],
  outcome: object = {},
  request: ScanRequest = {},
  { stream = patients, mode = 'skip-unchanged' }: { stream?: Stream; mode?: BatchMode } = {},
) {
  const listed = pages.reduce((sum, { records }) => sum + records.length, 0)
  const found = { complete: true, stable: true, count: listed, records: listed, reason: null, pages: 7 }
  const client = {
    ...{ apiVersion: 'v2.1', pathOf: ({ path }: { path: string }) => `path of ${path}` },
    pages(path: string, options: PagesOptions) {
      asked = { path, options }
      const all = (async function* () {
        yield* pages
      })()
      return Object.assign(all, { outcome: { ...found, ...outcome }, resumed: 'resumed' })
    },
  }
  const seen: unknown[] = []
  const source = {
    ...{ client, stream, taken: { teamId: 3, runId: '9' }, meter: 'a meter', signal: 'a signal' },
    ...{ clock: { now: () => BEGUN }, tally: { ...emptyTally(), fetched: 100 }, step: firstStep() },
    serviceClock: { sample: ({ number }: Page) => note('sample', number), observedAt: instantOf },
    failedFetches: { inRow: 0, later: new Map([['later', 'why']]) },
    onProgress: (progress: unknown) => void seen.push(progress),
  } as unknown as Source
  const report = await scanStream(source, SESSION as never, mode, request)
  return { report, source, seen }
}
