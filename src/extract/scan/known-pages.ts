/**
 * What the entries of each page of a list were, by their bytes, as stored in `intake_raw.known_pages`.
 *
 * Invariant: until a scan ends, it finds the rows of the scan before; then its own rows replace them. Erased records are
 * not stored. A worker that has lost its slice changes nothing: two scans that settle at once would collide.
 */
import { sql } from 'kysely'
import { type Instant, parseInstant } from '../../core/time.ts'
import { erasedAmong, openErasures } from '../../load/erasures.ts'
import { assertOwned } from '../../load/slice.ts'
import type { Session } from '../../warehouse/connect.ts'
import type { Source } from '../source.ts'

/** Hex digits of a hash. */
export const DIGITS = 32

/** The hash at a place, of hashes one after the other. */
export const part = (hashes: string, at: number) => hashes.slice(at * DIGITS, (at + 1) * DIGITS)

export interface NotedPage {
  readonly page: number
  readonly ids: readonly string[]
  /** Hashes in hex, one after the other. */
  readonly bytes: string
  readonly hashes: string
  readonly updatedTo: Instant | null
}

export interface KnownPage extends NotedPage {
  /** Places by the hash of the bytes. */
  readonly places: ReadonlyMap<string, number>
}

export interface KnownPages {
  /** By page, the hash of its first entry. */
  readonly firsts: ReadonlyMap<number, string>
  /** The rows of these pages; also requests those of the pages after the first one, which are read next. */
  load(pages: readonly number[]): Promise<readonly KnownPage[]>
  store(pages: readonly NotedPage[]): Promise<void>
  /** Replaces rows by those that were stored, and removes those above `pages`, the length of the list if it is known. */
  settle(pages: number | null): Promise<void>
  /** Forgets the pages stored since with a record that is not stored, as one that was found to be of an erased patient. */
  forgetUnstored(): Promise<void>
}

const NO_LIMIT = 2 ** 31 - 1

/** How many rows one query reads: that of a page, and those of the pages after it. */
const TOGETHER = 4
/** A row is requested when the page this many before its own is read. */
const NEAR = 2

/** `recall`: false if nothing is to be loaded. */
export async function openKnownPages(
  { stream, taken, loaders }: Source,
  { db }: Session,
  { reader, recall }: { readonly reader: string; readonly recall: boolean },
): Promise<KnownPages> {
  const { teamId } = taken
  const own = sql`team_id = ${teamId} and stream = ${stream.name}`

  async function settle(pages: number | null): Promise<void> {
    await db.transaction().execute(async (transaction) => {
      await assertOwned(transaction, taken)
      await sql`
        delete from intake_raw.known_pages old
        where ${own} and not is_next and (page > ${pages ?? NO_LIMIT} or exists (
          select from intake_raw.known_pages new
          where (new.team_id, new.stream, new.is_next, new.page) = (old.team_id, old.stream, true, old.page)
        ))`.execute(transaction)
      await sql`update intake_raw.known_pages set is_next = false where ${own} and is_next`.execute(
        transaction,
      )
    })
  }

  async function forgetUnstored(): Promise<void> {
    await sql`
      delete from intake_raw.known_pages
      where ${own} and is_next and exists (select from intake_ops.erasures where team_id = ${teamId}) and exists (
        select from unnest(string_to_array(ids, E'\n')) as listed (id)
        left join lateral (
          select true as is_stored from intake_raw.records stored
          where stored.team_id = ${teamId} and stored.stream = ${stream.name} and stored.id = listed.id
          offset 0
        ) stored on true
        where is_stored is null
      )`.execute(db)
  }

  // Rows of a killed scan, which may have noted records before they were found to be of an erased patient.
  await forgetUnstored()
  await settle(null)
  const { rows: heads } = recall
    ? await sql<{ page: number; first: string }>`
        select page, encode(substring(bytes for ${DIGITS / 2}), 'hex') as first from intake_raw.known_pages
        where ${own} and reader = ${reader}`.execute(db)
    : { rows: [] }

  async function rowsOf(pages: readonly number[]): Promise<readonly KnownPage[]> {
    // Not on the session of the scan: pages are read at the same time.
    const { rows } = await loaders.run((loader) =>
      sql<Row>`
        select page, ids, bytes, hashes, to_char(updated_to, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as updated
        from intake_raw.known_pages
        where ${own} and not is_next and page = any(${[...pages]}::int[])`.execute(loader.db),
    )
    return rows.map(({ page, ids, bytes, hashes, updated }) => {
      const keys = bytes.toString('hex')
      const list = ids === '' ? [] : ids.split('\n')
      const places = new Map(list.map((_, at) => [part(keys, at), at]))
      const updatedTo = updated === null ? null : parseInstant(updated)
      return { page, ids: list, bytes: keys, hashes: hashes.toString('hex'), updatedTo, places }
    })
  }

  const firsts = new Map(heads.map(({ page, first }) => [page, first]))
  /** Rows that were requested together, by each of their pages that has not been read yet. */
  const ahead = new Map<number, Promise<readonly KnownPage[]>>()

  /** The row of `page` and those requested together with it. Requests it first, with those of the next pages, if needed. */
  function ask(page: number): Promise<readonly KnownPage[]> | undefined {
    if (firsts.has(page) && !ahead.has(page)) {
      const pages = Array.from({ length: TOGETHER }, (_, at) => page + at)
      const wanted = pages.filter((each) => firsts.has(each) && !ahead.has(each))
      const rows = rowsOf(wanted)
      // A failure is reported by the page that needs a row.
      rows.catch(() => {})
      for (const each of wanted) ahead.set(each, rows)
    }
    return ahead.get(page)
  }

  return {
    firsts,
    settle,
    forgetUnstored,
    async load([page, ...others]) {
      if (page === undefined) return []
      const rows = (await ask(page)) ?? []
      ahead.delete(page)
      // Its row arrives while this page is being read.
      ask(page + NEAR)
      const found = rows.filter((row) => row.page === page)
      return others.length === 0 ? found : [...found, ...(await rowsOf(others))]
    },
    store: (pages) =>
      loaders.run(({ db }) =>
        db.transaction().execute(async (transaction) => {
          await assertOwned(transaction, taken)
          const erasures = await openErasures(transaction, teamId)
          const hashOf = (id: string) => erasures!.hashOf({ stream: stream.name, id })
          const hashes = erasures === null ? [] : pages.flatMap(({ ids }) => ids.map(hashOf))
          const erased = await erasedAmong(transaction, hashes)
          const kept =
            erased.size === 0 ? pages : pages.map((page) => without(page, (id) => erased.has(hashOf(id))))
          const of = (column: (page: NotedPage) => unknown) => kept.map(column)
          await sql`
            insert into intake_raw.known_pages (team_id, stream, is_next, page, reader, updated_to, ids, bytes, hashes)
            select ${teamId}, ${stream.name}, true, page, ${reader}, updated_to, ids, decode(bytes, 'hex'),
              decode(hashes, 'hex')
            from unnest(${of(({ page }) => page)}::int[], ${of(({ updatedTo }) => updatedTo)}::timestamptz[],
              ${of(({ ids }) => ids.join('\n'))}::text[], ${of(({ bytes }) => bytes)}::text[],
              ${of(({ hashes }) => hashes)}::text[]) as noted (page, updated_to, ids, bytes, hashes)
            on conflict (team_id, stream, is_next, page) do update set reader = excluded.reader,
              updated_to = excluded.updated_to, ids = excluded.ids, bytes = excluded.bytes,
              hashes = excluded.hashes`.execute(transaction)
        }),
      ),
  }
}

interface Row {
  readonly page: number
  readonly ids: string
  readonly bytes: Buffer
  readonly hashes: Buffer
  readonly updated: string | null
}

function without(page: NotedPage, isErased: (id: string) => boolean): NotedPage {
  const kept = page.ids.flatMap((id, at) => (isErased(id) ? [] : [at]))
  return {
    ...page,
    ids: kept.map((at) => page.ids[at]!),
    bytes: kept.map((at) => part(page.bytes, at)).join(''),
    hashes: kept.map((at) => part(page.hashes, at)).join(''),
  }
}
