/**
 * Loads a whole list into the warehouse.
 *
 *     page ─► whole entries ──────────────────────────────────────────┐
 *        └──► summaries, new or changed ─► fetched by id, in parallel ─┴─► batches ─► loaders
 *        └──► every id ─► seen ids
 *
 * Invariant: a scan is `stable` only when it reached the end of a list whose count did not change and equals the distinct
 * ids seen; for a log, when it read as many entries as were counted when it began. A scan that is not stable has lost
 * nothing: the records that it read are loaded, and it is to be repeated.
 */
import type { Page, PagesOptions } from '../../api/paging/pages.ts'
import { type Envelope, FUTURE_TOLERANCE_SECONDS } from '../../core/envelope.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { type Instant, instantOf, microsOf, parseInstant } from '../../core/time.ts'
import { addPage } from '../../load/run-progress.ts'
import { type Reading, type ReadRecord, readRecord } from '../../normalize/read-record.ts'
import { isPartial } from '../../streams/stream.ts'
import type { Session } from '../../warehouse/connect.ts'
import { fetchWhole } from '../conflicts/fetch-by-id.ts'
import type { Source } from '../source.ts'
import { type Batcher, type BatchMode, openBatcher } from './batcher.ts'
import { type KnownEntry, openKnownEntries, readPage } from './known-entries.ts'
import { openScanProgress } from './scan-progress.ts'
import { openSeenIds, type Place, type SeenIds } from './seen-ids.ts'

export interface ScanReport {
  readonly stable: boolean
  /** Why the scan is not stable; null when it is. */
  readonly reason: string | null
  /** Records stored before this moment and not seen may be gone. */
  readonly startedAt: Instant
  readonly seenIds: SeenIds
  /** Distinct records seen, and the service's count of them. */
  readonly distinct: number
  readonly count: number | null
  /** True when the scan reached the end of the list. */
  readonly complete: boolean
  /** Records on the pages up to the one that ended the scan: the same in any order of the pages. */
  readonly listed: number
  /** Ids in conflict. */
  readonly conflicting: readonly string[]
  /** The latest date of the records seen, dates in the future aside; null without a `dated` field or a date. */
  readonly newest: Instant | null
  /** True when a record did not satisfy the filter, and the scan ended there. */
  readonly stopped: boolean
}

export interface ScanRequest {
  readonly query?: { readonly [name: string]: string }
  /** Field whose latest date is reported as `newest`. */
  readonly dated?: string
  /** Every record that the service returns for the query must satisfy this. */
  readonly satisfies?: (payload: JsonObject) => boolean
  /** Fetch every record that the list summarizes, whether its summary changed or not. */
  readonly everySummary?: boolean
  /** Keep how far the scan has come; `continue`: start where an earlier one with the same request ended early. */
  readonly progress?: 'continue' | 'begin'
  /** Note the entries of the list by their bytes, and recognize them unless `everySummary`; not for dated entries. */
  readonly known?: boolean
}

export async function scanStream(
  source: Source,
  session: Session,
  mode: BatchMode,
  request: ScanRequest = {},
): Promise<ScanReport> {
  const { client, clock, serviceClock, stream, meter, signal, tally } = source
  const seenIds = await openSeenIds(session)
  const batcher = openBatcher(source, mode)
  const begunAt = clock.now()
  const fetchedBefore = tally.fetched
  const { query, dated, satisfies } = request
  let unkeyed = 0
  let newest: Instant | null = null
  const resource = stream.listedAs ?? stream.name
  const idsRepeat = stream.entryAt !== undefined
  const everySummary = request.everySummary === true
  const isKnowable = request.known === true && !idsRepeat && dated === undefined && satisfies === undefined
  const recall = mode === 'skip-unchanged' && !everySummary
  const known = isKnowable ? await openKnownEntries(source, session, { recall }) : null
  const path = client.pathOf(stream.list!)
  const scanned = {
    request: JSON.stringify([client.apiVersion, path, query, everySummary]),
    isContinued: request.progress === 'continue',
  }
  const isKept = request.progress !== undefined
  const progress = isKept ? await openScanProgress(source, session, seenIds, scanned) : null
  const conflicting = new Set<string>()
  const options: PagesOptions = {
    ...{ resource, meter, signal, idsRepeat },
    ...(progress?.kept === undefined ? {} : { kept: progress.kept }),
    ...(known === null ? {} : { read: known.read }),
    ...(query === undefined ? {} : { query }),
    ...(satisfies === undefined ? {} : { fits: (record) => !isObject(record) || satisfies(record) }),
  }
  const pages = client.pages(path, options)
  const stateNow = () => ({
    startedAt: progress?.continued()?.startedAt ?? (serviceClock.observedAt(begunAt) as Instant),
    newest,
  })
  const settle = async () => {
    for (const id of await batcher.finish()) conflicting.add(id)
    const unsettled = new Set([...conflicting, ...source.failedFetches.later.keys()])
    await seenIds.keepSummaries(placeOf(source), unsettled)
    return { ...stateNow(), unsettled }
  }
  for await (const page of pages) {
    serviceClock.sample(page)
    const continued = await progress?.decide(pages.resumed, page.number)
    if (continued) newest = continued.newest
    const reading = readingOf(source, page)
    const reads = await readPage(page, reading)
    const entries = reads.filter((read) => read !== null)
    const recognized = page.records.filter((_, index) => reads[index] === null) as KnownEntry[]
    const ids = [...entries.map(idOf), ...recognized.map(({ id }) => id)]
    for (const id of ids) {
      if (id === null) unkeyed += 1
      else seenIds.add(id)
    }
    tally.fetched += page.records.length
    const listed = tally.fetched - fetchedBefore + (progress?.skipped() ?? 0)
    addPage(source.step, page.records.length, page.count, listed)
    source.onProgress({ fetched: listed, expected: page.count })
    if (dated !== undefined) {
      const present = microsOf(serviceClock.observedAt(page.receivedAt) as Instant)
      newest = latest(entries, dated, instantOf(present + FUTURE_TOLERANCE_SECONDS * 1_000_000), newest)
    }
    await batcher.addKnown(recognized, (entry) => readRecord(entry.raw.parse(), reading))
    await loadEntries(source, batcher, seenIds, entries, everySummary)
    await known?.note(page, reads)
    await seenIds.flushIfFull()
    progress?.add(page.facts, ids)
    if (progress?.isDue() === true) await progress.keep(settle)
  }
  source.step.phase = 'merge'
  // Two states of a repeated record may have been loaded in either order, one of them skipped as unchanged.
  for (const id of [...(await batcher.finish()), ...(await seenIds.repeated())]) conflicting.add(id)
  const { complete, stable, count, records: listed, reason } = pages.outcome
  await known?.keep(complete ? pages.outcome.pages : null)
  const distinct = (await seenIds.count()) + unkeyed
  const stopped = reason === 'filter_ignored'
  const report = {
    ...stateNow(),
    seenIds,
    conflicting: [...conflicting],
    distinct,
    count,
    complete,
    listed,
    stopped,
  }
  // A log grows while it is read, and its entries may share ids: the entries it had at the start were read.
  if (stream.entryAt !== undefined && complete && listed >= (count ?? 0)) {
    return { ...report, stable: true, reason: null }
  }
  if (!complete || !stable) return { ...report, stable: false, reason: reason ?? 'not complete' }
  if (count !== null && distinct !== count) return { ...report, stable: false, reason: 'rows_repeated' }
  return { ...report, stable: true, reason: null }
}

function readingOf({ stream, taken, serviceClock }: Source, page: Page): Reading {
  return {
    teamId: taken.teamId,
    stream,
    origin: `run:${taken.runId} page:${page.number}`,
    observedAt: serviceClock.observedAt(page.startedAt) as Instant,
    invalidUtf8: page.invalidUtf8,
  }
}

function idOf(read: ReadRecord): string | null {
  return read.kind === 'record' ? read.envelope.id : read.deadLetter.recordId
}

/**
 * Returns the latest of `newest` and the entries' dates; dates after `limit` are ignored. Only a lower
 * bound of the present is known, so `limit` is later: the next run must accept every date that this one accepts.
 */
function latest(
  entries: readonly ReadRecord[],
  field: string,
  limit: Instant,
  newest: Instant | null,
): Instant | null {
  let found = newest
  for (const read of entries) {
    const value = read.kind === 'record' ? read.envelope.content?.payload[field] : null
    const time = typeof value === 'string' ? parseInstant(value) : null
    if (time !== null && time <= limit && (found === null || time > found)) found = time
  }
  return found
}

async function loadEntries(
  source: Source,
  batcher: Batcher,
  seenIds: SeenIds,
  entries: readonly ReadRecord[],
  everySummary: boolean,
): Promise<void> {
  const { stream, client } = source
  const summaries = entries.flatMap((read) => {
    if (read.kind !== 'record' || stream.one === null) return []
    return isPartial(stream, read.envelope.content!.payload, client.apiVersion) ? [read.envelope] : []
  })
  const known = everySummary ? NONE : await seenIds.unchangedSummaries(placeOf(source), summaries)
  const wanted: Envelope[] = []
  for (const summary of summaries) {
    if (known.has(summary.id)) {
      seenIds.addSummary(summary)
      source.tally.unchanged += 1
    } else wanted.push(summary)
  }
  const whole = await fetchWhole(source, wanted)
  for (const summary of wanted) {
    // A record that could not be fetched, or has problems, is fetched again by the next run.
    const read = whole.get(summary.id)
    const isWhole = read?.kind === 'record' && read.envelope.content?.problems.length === 0
    if (isWhole && isPast(summary)) seenIds.addSummary(summary)
  }
  const reads = entries.flatMap((read) => {
    if (read.kind !== 'record') return read
    const { id } = read.envelope
    if (known.has(id)) return []
    return whole.has(id) ? (whole.get(id) ?? []) : read
  })
  await batcher.add(
    reads.flatMap((read) => (read.kind === 'record' ? [read.envelope] : [])),
    reads.flatMap((read) => (read.kind === 'dead' ? [read.deadLetter] : [])),
  )
}

/** A stamp cut to seconds is equal for all changes within its second, and its clock may be behind. */
const SAME_STAMP_MICROS = 5_000_000

/** True where a later change gets a later stamp, so that the list entry will differ. */
function isPast({ content, observedAt }: Envelope): boolean {
  const { updated_at } = content!.payload
  const updated = typeof updated_at === 'string' ? parseInstant(updated_at) : null
  return updated === null || microsOf(updated) + SAME_STAMP_MICROS < microsOf(observedAt)
}

const NONE: ReadonlySet<string> = new Set()

function placeOf({ taken, stream }: Source): Place {
  return { teamId: taken.teamId, stream: stream.name }
}
