/**
 * How far a scan has come (intake_ops.scans), so that one that ended early is continued by the next run, or by the worker
 * that takes its slice over.
 *
 * Invariant: on a kept page every record is stored as the page showed it: none is in conflict, dead-lettered, erased,
 * without an id or still to be fetched. So a page that is not read again leaves nothing to do. Its ids prove as much as
 * those of a page that this scan has read (page.ts says when the list counts as the same); a record that was deleted
 * since then is found by the next scan.
 */
import { sql } from 'kysely'
import type { KeptPages, PageFacts } from '../../api/paging/pages.ts'
import type { Instant } from '../../core/time.ts'
import { erasedAmong, openErasures } from '../../load/erasures.ts'
import { assertOwned } from '../../load/slice.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { Source } from '../source.ts'
import type { SeenIds } from './seen-ids.ts'

/** Progress is kept this often; less often, up to a limit, where it would take more than this share of the time. */
const EVERY_MICROS = 2_000_000
const SHARE = 1 / 20
/** The longest pause: a process that takes over after a kill reads again what was not kept. */
const AT_LEAST_EVERY_MICROS = 10_000_000
/** Progress is kept at once when there are this many ids, which are in memory until then. */
const MAX_IDS = 200_000
/** A scan that was last kept longer ago is not continued. */
const FRESH = sql`interval '1 hour'`
/** With this many dead letters or more, nothing is kept. */
const MAX_DEAD_LETTERS = 10_000

/** What a scan has found so far. */
export interface ScanState {
  /** On the service's clock. */
  readonly startedAt: Instant
  /** The latest date of the records seen. */
  readonly newest: Instant | null
}

export interface ScanProgress {
  /** Pages of the scan that may be continued. */
  readonly kept: KeptPages | undefined
  /**
   * To be called with each page: once it is known whether the kept pages count as read, adds their ids to the seen ids, or
   * discards them. Returns what the continued scan had found, once.
   */
  decide(resumed: boolean | null, page: number): Promise<ScanState | null>
  /** What the continued scan had found; null if none is continued. */
  continued(): ScanState | null
  /** Number of records on kept pages that are not read again. */
  skipped(): number
  /** Notes a page; an id is null where an entry has none. */
  add(facts: PageFacts, ids: readonly (string | null)[]): void
  isDue(): boolean
  /**
   * Keeps the pages noted since the last time. `settle` waits until they are loaded, and returns the ids of records that
   * are not stored as their page showed them.
   */
  keep(settle: () => Promise<ScanState & { readonly unsettled: ReadonlySet<string> }>): Promise<void>
}

/** `request`: what the scan requests. `isContinued`: false if an earlier scan is not to be continued. */
export async function openScanProgress(
  { team, stream, taken, loaders, clock, logger }: Source,
  { db }: Session,
  seenIds: SeenIds,
  { request, isContinued }: { readonly request: string; readonly isContinued: boolean },
): Promise<ScanProgress> {
  const place = { teamId: taken.teamId, stream: stream.name }
  const own = sql`team_id = ${taken.teamId} and stream = ${stream.name}`
  const discard = () => sql`delete from intake_ops.scans where ${own}`.execute(db)

  const { rows: scans } = await sql<Stored>`
    select first_page as first, began_at::text as "beganAt", ${instant('started_at')} as "startedAt",
      ${instant('newest')} as newest, pages.facts
    from intake_ops.scans cross join lateral (
      select json_agg(facts order by page) as facts, count(*) as number from intake_ops.scan_pages where ${own}
    ) pages
    where ${own} and ${isContinued} and request = ${request} and kept_at > now() - ${FRESH} and pages.number = scans.pages`.execute(
    db,
  )
  const [earlier] = scans
  const facts = earlier?.facts ?? []
  if (facts.length === 0) await discard()

  let continued: Stored | null = null
  let isDecided = facts.length === 0
  let first = earlier?.first ?? null
  const numbers = new Set(facts.map(({ number }) => number))
  let waiting: { readonly facts: PageFacts; readonly ids: readonly (string | null)[] }[] = []
  let ids = 0
  let keptAt = clock.now()
  let took = 0
  let skipped = 0

  return {
    kept: isDecided ? undefined : { first: first!, pages: new Map(facts.map((each) => [each.number, each])) },
    async decide(resumed, page) {
      if (isDecided || resumed === null) return null
      isDecided = true
      if (!resumed) {
        await discard()
        numbers.clear()
        return null
      }
      // The first page and this one are read again.
      const notAgain = facts.filter(({ number }) => number !== 1 && number !== page)
      skipped = notAgain.reduce((sum, { records }) => sum + records, 0)
      logger.info(
        { team, stream: stream.name, pages: notAgain.length },
        `continuing a scan that ended early: ${notAgain.length} pages are not read again`,
      )
      await seenIds.restore(place, earlier!, [1, page])
      continued = earlier!
      return continued
    },
    continued: () => continued,
    skipped: () => skipped,
    add(page, pageIds) {
      if (page.number === 1) first = page
      waiting.push({ facts: page, ids: pageIds })
      ids += pageIds.length
    },
    // Not before it is known whether a scan is continued: its start and its latest date are to be kept with its pages.
    isDue() {
      const pause = Math.min(AT_LEAST_EVERY_MICROS, Math.max(EVERY_MICROS, took / SHARE))
      return isDecided && (ids >= MAX_IDS || clock.now() - keptAt >= pause)
    },
    async keep(settle) {
      const begun = clock.now()
      const pages = waiting
      waiting = []
      ids = 0
      const { startedAt, newest, unsettled } = await settle()
      await loaders.run((loader) =>
        loader.db.transaction().execute(async (transaction) => {
          await assertOwned(transaction, taken)
          const { rows: dead } = await sql<{ id: string | null }>`
            select record_id as id from intake_ops.dead_letters
            where ${own} and status = 'waiting' and last_run_id = ${taken.runId} limit ${MAX_DEAD_LETTERS}`.execute(
            transaction,
          )
          if (dead.length === MAX_DEAD_LETTERS) return
          const deadIds = new Set(dead.map(({ id }) => id))
          const erasures = await openErasures(transaction, taken.teamId)
          const hashOf = (id: string) => erasures!.hashOf({ stream: stream.name, id })
          const erased = await erasedAmong(
            transaction,
            erasures === null
              ? []
              : pages.flatMap((page) => page.ids.filter((id) => id !== null).map(hashOf)),
          )
          const isStored = (id: string | null) =>
            id !== null &&
            isText(id) &&
            !unsettled.has(id) &&
            !deadIds.has(id) &&
            (erased.size === 0 || !erased.has(hashOf(id)))
          const stored = pages.filter((page) => page.ids.every(isStored))
          for (const { facts } of pages) numbers.delete(facts.number)
          for (const { facts } of stored) numbers.add(facts.number)
          // Includes kept pages that were read again.
          const read = pages.map(({ facts }) => facts.number)
          // A row that is there is of this scan, or of the one that it continues: the others were discarded.
          // Writes the scan before its pages, the order in which an erasure deletes them: otherwise the two could deadlock.
          await sql`
            insert into intake_ops.scans (team_id, stream, request, started_at, began_at, newest, first_page, pages)
            values (${taken.teamId}, ${stream.name}, ${request}, ${startedAt}, ${seenIds.beganAt}::timestamptz, ${newest},
              ${JSON.stringify(first)}::jsonb, ${numbers.size})
            on conflict (team_id, stream) do update set newest = excluded.newest, first_page = excluded.first_page,
              pages = excluded.pages, kept_at = now()`.execute(transaction)
          await sql`delete from intake_ops.scan_pages where ${own} and page = any(${read}::int[])`.execute(
            transaction,
          )
          await sql`
            insert into intake_ops.scan_pages (team_id, stream, page, facts, ids)
            select ${taken.teamId}, ${stream.name}, (facts ->> 'number')::int, facts, ids
            from jsonb_to_recordset(${JSON.stringify(stored)}::jsonb) as page (facts jsonb, ids text[])`.execute(
            transaction,
          )
        }),
      )
      keptAt = clock.now()
      took = keptAt - begun
    },
  }
}

interface Stored extends ScanState {
  readonly first: PageFacts
  /** On the clock of the warehouse. */
  readonly beganAt: string
  /** In order; null if there is none. */
  readonly facts: readonly PageFacts[] | null
}

const instant = (column: string) => sql`to_char(${sql.ref(column)}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** False for what Postgres cannot store. */
const isText = (id: string) => id.isWellFormed() && !id.includes('\0')
