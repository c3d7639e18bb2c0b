/**
 * A second look at what differed, since the source and the warehouse both go on while they are compared.
 *
 *     doubtful ─► fetched by id, or the list read again ─► a pause ─► compared again ─┬─► still differs: a difference
 *                                                                                     └─► newer, or equal by now
 *
 * Invariant: what is handed back was seen to differ in each look, and the warehouse held no later state than the last
 * of them. What no activity can explain is not asked for again.
 */
import { sql } from 'kysely'
import type { Envelope } from '../../core/envelope.ts'
import { FUTURE_TOLERANCE_SECONDS } from '../../core/envelope.ts'
import { type Instant, instantOf, microsOf } from '../../core/time.ts'
import { fetchForRun } from '../../extract/conflicts/fetch-by-id.ts'
import type { Source } from '../../extract/source.ts'
import { linesOf } from '../../normalize/lines.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { ExpectedTables } from '../expected/tables.ts'
import { expectLines, noteUnknown } from './expect-lines.ts'
import { expectRaw } from './expect-raw.ts'
import { expectSource, forget } from './expect-source.ts'
import { type Difference, findDifferences } from './find.ts'

export interface Looking {
  readonly source: Source
  readonly session: Session
  readonly scanning: Session
  readonly tables: ExpectedTables
  readonly loggedUntil: Instant | null
  /** What reading the source once has cost. */
  readonly requests: number
}

export interface Looks {
  /** What differs for good. */
  readonly differences: readonly Difference[]
  /** Records that the warehouse held in a later state, or that were equal at a later look. */
  readonly newer: number
  /** Entries that a log got after the warehouse last read it. */
  readonly notDue: number
  readonly payloadsOnly: number
}

/** How long what the warehouse is about to load may take when a look ends. */
const PAUSES_MS = [500]
/** Where events come: one that was not taken comes again after some seconds. */
const PAUSES_WITH_EVENTS_MS = [1_000, 2_500, 6_000]

/** So many records are asked for by id, whatever the list costs; of more, whichever costs less. */
const FEW = 50
const AT_A_TIME = 200

/** When the source began to be looked at. */
export interface Begun {
  /** In its clock. */
  readonly startedAt: Instant
  /** In the warehouse's. */
  readonly from: string
}

/** The present, in the warehouse's clock. */
export async function presentOf({ db }: Session): Promise<string> {
  const { rows } = await sql<{ at: string }>`select now()::text as at`.execute(db)
  return rows[0]!.at
}

export async function lookUntilSure(looking: Looking, begun: Begun): Promise<Looks> {
  const first = await findDifferences(looking.session, lookedAt(looking, begun), { kind: 'all' })
  const certain = first.filter((each) => each.certain)
  const payloadsOnly = first.filter((each) => each.payloadOnly && !each.certain).length
  let doubtful: readonly Difference[] = first.filter(
    (each) => !each.certain && !each.payloadOnly && !isNotDue(looking, each),
  )
  const notDue = first.filter((each) => isNotDue(looking, each)).length
  const doubted = doubtful.length
  for (const pause of await pausesFor(looking)) {
    if (doubtful.length === 0) break
    doubtful = await lookAgain(looking, doubtful, pause)
  }
  const differences = [...certain, ...doubtful].sort((a, b) => (a.id < b.id ? -1 : 1))
  return { differences, newer: doubted - doubtful.length, notDue, payloadsOnly }
}

async function pausesFor({ source, session }: Looking): Promise<readonly number[]> {
  if (source.stream.source === undefined) return PAUSES_MS
  const { rows } = await sql<{ come: boolean }>`
    select exists (
      select from intake_raw.inbox where team_id = ${source.taken.teamId}
        and received_on >= (now() at time zone 'UTC')::date - 1 and received_at > now() - interval '10 minutes'
    ) as come`.execute(session.db)
  return rows[0]!.come ? PAUSES_WITH_EVENTS_MS : PAUSES_MS
}

/** An entry that a log got after the warehouse last read it. */
function isNotDue({ loggedUntil }: Looking, { newer, kind }: Difference): boolean {
  return loggedUntil !== null && newer && kind === 'missing'
}

async function lookAgain(
  looking: Looking,
  doubtful: readonly Difference[],
  pause: number,
): Promise<readonly Difference[]> {
  const { source, session, scanning, tables } = looking
  const ids = doubtful.map(({ id }) => id)
  const wanted = new Set(ids)
  const from = await presentOf(session)
  if (tables.stream.one === null || ids.length > Math.max(FEW, looking.requests)) {
    const { startedAt } =
      tables.stream.list === null
        ? await expectRaw(source, session, tables)
        : await expectSource(source, session, scanning, tables)
    await source.clock.sleep(pause, source.signal)
    const found = await findDifferences(session, lookedAt(looking, { startedAt, from }), { kind: 'all' })
    return found.filter((each) => wanted.has(each.id) && isDifferent(each))
  }
  const startedAt = source.serviceClock.observedAt(source.clock.now()) as Instant
  for (let at = 0; at < ids.length; at += AT_A_TIME) await expectById(looking, ids.slice(at, at + AT_A_TIME))
  await source.clock.sleep(pause, source.signal)
  return (await compareIds(looking, ids, { startedAt, from })).filter(isDifferent)
}

function isDifferent({ newer, payloadOnly }: Difference): boolean {
  return !newer && !payloadOnly
}

/** What differs of these records; `begun` is when the source was last looked at. */
export async function compareIds(
  looking: Looking,
  ids: readonly string[],
  begun: Begun,
): Promise<readonly Difference[]> {
  const found: Difference[] = []
  for (let from = 0; from < ids.length; from += AT_A_TIME) {
    const portion = ids.slice(from, from + AT_A_TIME)
    found.push(
      ...(await findDifferences(looking.session, lookedAt(looking, begun), { kind: 'ids', ids: portion })),
    )
  }
  return found
}

/** Expects of these records what the service now says of each. */
async function expectById({ source, session, tables }: Looking, ids: readonly string[]): Promise<void> {
  const found = await fetchForRun(source, ids, 'refetch')
  const envelopes = found.flatMap((each) => (each.kind === 'record' ? [each.envelope] : []))
  await expectEnvelopes(session, tables, ids, envelopes)
  for (const [at, { kind }] of found.entries())
    if (kind === 'dead' || kind === 'later') await noteUnknown(session, ids[at]!)
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

function lookedAt({ source, tables, loggedUntil }: Looking, { startedAt, from }: Begun) {
  const now = microsOf(source.serviceClock.observedAt(source.clock.now()) as Instant)
  const until = instantOf(now + FUTURE_TOLERANCE_SECONDS * 1_000_000)
  return { teamId: source.taken.teamId, tables, from, since: startedAt, until, loggedUntil }
}
