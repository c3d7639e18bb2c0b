/**
 * The pipeline from page bytes to committed rows, without HTTP: the cost of the extractor and the loaders alone. The
 * client is replaced by one that parses bodies from memory; everything behind it is the real code.
 */
import pino from 'pino'
import type { Client } from '../../src/api/client.ts'
import type { Page, PageFacts, PagesOptions, Scan, ScanOutcome } from '../../src/api/paging/pages.ts'
import { pathsWith } from '../../src/api/paths.ts'
import { openServiceClock } from '../../src/api/service-clock.ts'
import { systemClock } from '../../src/core/clock.ts'
import { isObject, parseJson } from '../../src/core/json.ts'
import { parseEntries } from '../../src/core/raw-entries.ts'
import { noFailedFetches } from '../../src/extract/conflicts/fetch-by-id.ts'
import { readList } from '../../src/extract/reading/read-list.ts'
import { emptyTally, type Source, type Tally } from '../../src/extract/source.ts'
import { loadBatch } from '../../src/load/merge/load.ts'
import { type Loaders, openLoaders } from '../../src/load/merge/loaders.ts'
import { firstStep } from '../../src/load/run-progress.ts'
import { takeSlice } from '../../src/load/slice.ts'
import {
  openVerifySessions,
  type StreamVerified,
  verifyStream,
} from '../../src/reconcile/verify/verify-stream.ts'
import { openSession, PLANNER, type Session } from '../../src/warehouse/connect.ts'
import { pagesOf, type Sample } from './pages.ts'

/** Reads all pages of a list into the warehouse at `url`, as a backfill of its stream does, and returns its report. */
export async function runRoad(
  url: string,
  sample: Sample,
  total: number,
  pageAt = (page: number) => sample.pageAt(page, total),
): Promise<Tally> {
  await using session = await openSession({ url, purpose: 'bench', planner: PLANNER.compare })
  await using loaders = openLoaders({ url, clock: systemClock })
  const source = await sourceAt({ sample, total, pageAt }, session, loaders, url)
  const window = { lookbackDays: 2, sweepDays: 7, full: false, since: null }
  await readList(source, session, { allowMassDelete: false, dry: false, migrated: true, window })
  return source.tally
}

/** Compares all pages of a list with the warehouse at `url`, as `verify` does. */
export async function verifyRoad(
  url: string,
  sample: Sample,
  total: number,
  pageAt: (page: number) => Buffer,
): Promise<StreamVerified> {
  await using sessions = await openVerifySessions(url)
  await using loaders = openLoaders({ url, clock: systemClock })
  return await verifyStream(
    await sourceAt({ sample, total, pageAt }, sessions.session, loaders, url),
    sessions,
    null,
  )
}

interface Pages {
  readonly sample: Sample
  readonly total: number
  readonly pageAt: (page: number) => Buffer
}

async function sourceAt(
  { sample, total, pageAt }: Pages,
  session: Session,
  loaders: Loaders,
  url: string,
): Promise<Source> {
  const { stream } = sample
  const taken = await takeSlice(session.db, { teamId: 1, stream: stream.name, slice: '' }, '1')
  return {
    team: 'one',
    client: bytesClient(pageAt, pagesOf(sample, total), total),
    serviceClock: openServiceClock(),
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    signal: new AbortController().signal,
    loaders,
    url,
    timezone: 'UTC',
    stream,
    taken,
    load: loadBatch,
    meter: { requests: 0, throttled: 0 },
    tally: emptyTally(),
    step: firstStep(),
    failedFetches: noFailedFetches(),
    onProgress: () => {},
  }
}

function bytesClient(pageAt: (page: number) => Buffer, pages: number, total: number): Client {
  const outcome: ScanOutcome = { complete: true, stable: true, count: total, pages, records: total }
  async function* scan({ read }: PagesOptions): AsyncGenerator<Page, ScanOutcome, undefined> {
    for (let at = 0; at < pages; at++) {
      const startedAt = systemClock.now()
      const { value, invalidUtf8 } = (read ? parseEntries : parseJson)(pageAt(at))
      const entries = isObject(value) && Array.isArray(value.results) ? value.results : []
      const records = read ? await read(at + 1, entries) : entries
      const times = { startedAt, receivedAt: systemClock.now(), serviceDate: null }
      const facts: PageFacts = {
        ...{
          kind: 'page',
          number: at + 1,
          records: records.length,
          count: total,
          next: null,
          endKnown: true,
        },
        ...{ fingerprint: String(at), fits: true },
      }
      yield { number: at + 1, records, count: total, ...times, invalidUtf8, last: at === pages - 1, facts }
    }
    return outcome
  }
  const client = {
    apiVersion: 'v2.1',
    paths: pathsWith(),
    pathOf: ({ path }: { readonly path: string }) => path,
    pages: (_path: string, options: PagesOptions) =>
      Object.assign(scan(options), { outcome, resumed: null }) as Scan,
  }
  return client as unknown as Client
}
