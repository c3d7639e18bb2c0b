/**
 * The responses that satisfy a filter, in the order of the list.
 *
 * Invariant: the result equals a filter over every response. Seeded responses never change, so their matches are found
 * once per filter, without generating answers, and cached; the changes since then are applied to them.
 */
import type { Key } from './draw.ts'
import type { Response } from './records.ts'
import { seededHead } from './seeded/open-seed.ts'
import type { Head } from './seeded/seed.ts'
import type { Listing, Row, Table } from './table.ts'
import type { World } from './world.ts'

/** All given conditions must be true. Times are in microseconds, `submittedFrom` inclusive, `submittedBefore` exclusive. */
export interface ResponseFilter {
  readonly patient?: string
  readonly form?: string
  readonly packet?: string
  readonly submittedFrom?: number
  readonly submittedBefore?: number
}

const TURN = 20_000
const REMEMBERED = 64
const memory = new WeakMap<Key, Map<string, Promise<readonly number[]>>>()

/** The indexes alone, ascending. */
export async function findIndexes(world: World, filter: ResponseFilter): Promise<readonly number[]> {
  const seeded = await seededMatches(world, filter)
  const { responses } = world
  const touched = responses.touched()
  const indexes = seeded.filter((index) => !touched.has(index) && responses.has(index))
  const changed = [...touched].filter(([, response]) => matches(response, filter)).map(([index]) => index)
  return changed.length === 0 ? indexes : [...indexes, ...changed].sort((a, b) => a - b)
}

export async function findResponses(world: World, filter: ResponseFilter): Promise<Listing<Response>> {
  const found = await findIndexes(world, filter)
  const { responses } = world
  const rows = (from: number, limit: number, all: readonly number[]) =>
    all.slice(from, from + limit).flatMap((index) => responses.at(index) ?? [])
  return {
    size: found.length,
    slice: (position, limit, newestFirst = false) =>
      rows(position, limit, newestFirst ? found.toReversed() : found),
    scan: (token, limit) => ({
      rows: rows(token, limit, found),
      next: token + limit < found.length ? token + limit : null,
    }),
  }
}

function matches(response: Response, filter: ResponseFilter): boolean {
  const { patient, form, packet, submittedFrom, submittedBefore } = filter
  if (patient !== undefined && response.patient !== patient) return false
  if (form !== undefined && response.form !== form) return false
  if (packet !== undefined && response.packet !== packet) return false
  const submitted = response.submitted_at === null ? null : microseconds(response.submitted_at)
  return inDays(submitted, submittedFrom, submittedBefore)
}

function inDays(submitted: number | null, from?: number, before?: number): boolean {
  if (from === undefined && before === undefined) return true
  if (submitted === null) return false
  return (from === undefined || submitted >= from) && (before === undefined || submitted < before)
}

/** Reads a stamp to the millisecond, enough to compare with whole days. */
function microseconds(text: string): number {
  return Date.parse(text) * 1000
}

function seededMatches(world: World, filter: ResponseFilter): Promise<readonly number[]> {
  let known = memory.get(world.key)
  if (known === undefined) {
    known = new Map()
    memory.set(world.key, known)
  }
  const name = JSON.stringify(filter)
  let found = known.get(name)
  if (found === undefined) {
    if (known.size >= REMEMBERED) known.delete(known.keys().next().value!)
    found = search(world, filter)
    known.set(name, found)
  }
  return found
}

async function search(world: World, filter: ResponseFilter): Promise<readonly number[]> {
  const { seed } = world
  const index = (id: string | undefined, of: { indexOf(id: string): number | undefined }) =>
    id === undefined ? undefined : (of.indexOf(id) ?? -1)
  const patient = index(filter.patient, seed.patients.ids)
  const form = index(filter.form, seed.forms.ids)
  const packet = index(filter.packet, seed.packets.ids)
  const fits = (head: Head) =>
    (patient === undefined || head.patient === patient) &&
    (form === undefined || head.form === form) &&
    (packet === undefined || head.packet === packet) &&
    inDays(head.submitted, filter.submittedFrom, filter.submittedBefore)
  const found: number[] = []
  for (let index = 0; index < seed.sizes.responses; index += 1) {
    if (fits(seededHead(seed, index))) found.push(index)
    if (index % TURN === TURN - 1) await new Promise((resolve) => setImmediate(resolve))
  }
  return found
}

/**
 * Filters a table by reading all of it.
 *
 * Invariant: the rows keep the order of the table; other requests are served every few thousand rows.
 */
const ROWS_PER_TURN = 4000

export async function filtered<T extends Row>(
  table: Table<T>,
  matches: (row: T) => boolean,
): Promise<Listing<T>> {
  const found: T[] = []
  for (let token: number | null = 0; token !== null; ) {
    const { rows, next }: { rows: T[]; next: number | null } = table.scan(token, ROWS_PER_TURN)
    for (const row of rows) if (matches(row)) found.push(row)
    token = next
    if (token !== null) await new Promise((resolve) => setImmediate(resolve))
  }
  return {
    size: found.length,
    slice: (position, limit, newestFirst = false) =>
      (newestFirst ? found.toReversed() : found).slice(position, position + limit),
    scan: (token, limit) => ({
      rows: found.slice(token, token + limit),
      next: token + limit < found.length ? token + limit : null,
    }),
  }
}
