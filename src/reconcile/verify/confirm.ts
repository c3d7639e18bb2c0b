/**
 * Confirms differences, since the source and the warehouse both change while they are compared.
 *
 *     unconfirmed ─► fetched by id, or listed again ─► a pause ─► compared again ─┬─► still differs: a difference
 *                                                                                 └─► newer, or equal by now
 *
 * Invariant: a returned difference occurred in every comparison, and the warehouse had no state later than the last one.
 * Certain differences are not fetched again.
 */
import { sql } from 'kysely'
import { type Envelope, FUTURE_TOLERANCE_SECONDS } from '../../core/envelope.ts'
import { type Instant, instantOf, microsOf } from '../../core/time.ts'
import { fetchForRun } from '../../extract/conflicts/fetch-by-id.ts'
import type { Source } from '../../extract/source.ts'
import { linesOf } from '../../normalize/lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { ExpectedTables } from '../expected-tables.ts'
import { expectLines, expectRaw, noteUnknown } from './expect-raw.ts'
import { expectSource, forget } from './expect-source.ts'
import { type Difference, findDifferences } from './find.ts'

export interface StreamComparison {
  readonly source: Source
  readonly session: Session
  readonly scanning: Session
  readonly tables: ExpectedTables
  readonly loggedUntil: Instant | null
  /** Requests for reading the source once. */
  readonly requests: number
}

export interface ConfirmedDifferences {
  /** Confirmed differences. */
  readonly differences: readonly Difference[]
  /** Records with a later state in the warehouse, or equal in a later comparison. */
  readonly newer: number
  /** Log entries newer than the last read of the warehouse. */
  readonly notDue: number
  readonly payloadsOnly: number
}

/** Time for loads that are in progress to finish. */
const PAUSES_MS = [500]
/** With recent events: the service retries a delivery after some seconds. */
const PAUSES_WITH_EVENTS_MS = [1_000, 2_500, 6_000]

/** Up to this many records are fetched by id; for more, the cheaper of fetching and listing is used. */
const FEW = 50
const IDS_PER_STATEMENT = 200

/** Start of reading the source. */
export interface ReadStart {
  /** On the service's clock. */
  readonly startedAt: Instant
  /** On the warehouse's clock. */
  readonly from: string
}

/** The current time of the warehouse's clock. */
export async function presentOf({ db }: Session): Promise<string> {
  const { rows } = await sql<{ at: string }>`select now()::text as at`.execute(db)
  return rows[0]!.at
}

export async function confirmDifferences(
  comparing: StreamComparison,
  begun: ReadStart,
): Promise<ConfirmedDifferences> {
  const first = await findDifferences(comparing.session, searchFor(comparing, begun), { kind: 'all' })
  const certain = first.filter((difference) => difference.certain)
  const payloadsOnly = first.filter((difference) => difference.payloadOnly).length
  let unconfirmed: readonly Difference[] = first.filter(
    (difference) => !difference.certain && !difference.payloadOnly && !isNotDue(comparing, difference),
  )
  const notDue = first.filter((difference) => isNotDue(comparing, difference)).length
  const candidates = unconfirmed.length
  for (const pause of await pausesFor(comparing)) {
    if (unconfirmed.length === 0) break
    unconfirmed = await compareAgain(comparing, unconfirmed, pause)
  }
  const differences = [...certain, ...unconfirmed].sort((a, b) => (a.id < b.id ? -1 : 1))
  return { differences, newer: candidates - unconfirmed.length, notDue, payloadsOnly }
}

async function pausesFor({ source, session }: StreamComparison): Promise<readonly number[]> {
  if (source.stream.source === undefined) return PAUSES_MS
  const { rows } = await sql<{ come: boolean }>`
    select exists (
      select from intake_raw.inbox where team_id = ${source.taken.teamId}
        and received_on >= (now() at time zone 'UTC')::date - 1 and received_at > now() - interval '10 minutes'
    ) as come`.execute(session.db)
  return rows[0]!.come ? PAUSES_WITH_EVENTS_MS : PAUSES_MS
}

/** True for a log entry newer than the last read of the warehouse. */
function isNotDue({ loggedUntil }: StreamComparison, { newer, kind }: Difference): boolean {
  return loggedUntil !== null && newer && kind === 'missing'
}

async function compareAgain(
  comparing: StreamComparison,
  unconfirmed: readonly Difference[],
  pause: number,
): Promise<readonly Difference[]> {
  const { source, session, scanning, tables } = comparing
  const ids = unconfirmed.map(({ id }) => id)
  const wanted = new Set(ids)
  const from = await presentOf(session)
  if (tables.stream.one === null || ids.length > Math.max(FEW, comparing.requests)) {
    const { startedAt } =
      tables.stream.list === null
        ? await expectRaw(source, session, tables)
        : await expectSource(source, session, scanning, tables)
    await source.clock.sleep(pause, source.signal)
    const found = await findDifferences(session, searchFor(comparing, { startedAt, from }), { kind: 'all' })
    return found.filter((difference) => wanted.has(difference.id) && isDifferent(difference))
  }
  const startedAt = source.serviceClock.observedAt(source.clock.now()) as Instant
  for (let index = 0; index < ids.length; index += IDS_PER_STATEMENT)
    await expectById(comparing, ids.slice(index, index + IDS_PER_STATEMENT))
  await source.clock.sleep(pause, source.signal)
  return (await compareIds(comparing, ids, { startedAt, from })).filter(isDifferent)
}

function isDifferent({ newer, payloadOnly }: Difference): boolean {
  return !newer && !payloadOnly
}

/** Differences of these records; `begun` is the start of the last read of the source. */
export async function compareIds(
  comparing: StreamComparison,
  ids: readonly string[],
  begun: ReadStart,
): Promise<readonly Difference[]> {
  const found: Difference[] = []
  for (let from = 0; from < ids.length; from += IDS_PER_STATEMENT) {
    const portion = ids.slice(from, from + IDS_PER_STATEMENT)
    found.push(
      ...(await findDifferences(comparing.session, searchFor(comparing, begun), {
        kind: 'ids',
        ids: portion,
      })),
    )
  }
  return found
}

/** Replaces the expected rows of these records by their current state at the service. */
async function expectById(
  { source, session, tables }: StreamComparison,
  ids: readonly string[],
): Promise<void> {
  const found = await fetchForRun(source, ids, 'refetch')
  const envelopes = found.flatMap((result) => (result.kind === 'record' ? [result.envelope] : []))
  await expectEnvelopes(session, tables, ids, envelopes)
  for (const [index, { kind }] of found.entries())
    if (kind === 'dead' || kind === 'later') await noteUnknown(session, ids[index]!)
}

export async function expectEnvelopes(
  session: Session,
  tables: ExpectedTables,
  ids: readonly string[],
  envelopes: readonly Envelope[],
): Promise<void> {
  await forget(session, tables, ids)
  await expectLines(session, tables, linesOf(tables.stream, envelopes))
}

function searchFor({ source, tables, loggedUntil }: StreamComparison, { startedAt, from }: ReadStart) {
  const now = microsOf(source.serviceClock.observedAt(source.clock.now()) as Instant)
  const until = instantOf(now + FUTURE_TOLERANCE_SECONDS * 1_000_000)
  return { teamId: source.taken.teamId, tables, from, since: startedAt, until, loggedUntil }
}
