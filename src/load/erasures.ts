/**
 * Erased patients, as keyed hashes of ids that a load looks up within its own transaction.
 *
 * Invariant: `openErasures` blocks new erasures of the team until the transaction ends, so that every load either
 * committed before an erasure, which then removes its rows, or sees the erasure. It costs one statement in a team without
 * erasures; no team waits for another's erasures or checks its records because of them. No id is stored, and a hash does
 * not reveal one.
 */
import { createHmac } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { BatchLines } from '../normalize/lines.ts'
import { bytesOf, idOf, isTombstone, keyOf, linesIn, teamsIn, unescaped } from '../normalize/split-lines.ts'
import { FILES, PERSONS } from '../streams/catalogue.ts'
import type { Stream } from '../streams/stream.ts'
import { type NamingColumn, namingColumns, type Subject } from '../streams/subjects.ts'
import type { Session } from '../warehouse/connect.ts'
import { lockAlone } from '../warehouse/locks.ts'
import type { Warehouse } from '../warehouse/tables.ts'

export interface Erasures {
  readonly teamId: number
  hashOf(subject: Subject): string
}

/** The erasures of a team, for one transaction; null if it has none. */
export async function openErasures(db: Kysely<Warehouse>, teamId: number): Promise<Erasures | null> {
  return (await openErasuresOf(db, [teamId])).get(teamId) ?? null
}

/** The same for several teams, in one statement; teams without erasures are left out. */
export async function openErasuresOf(
  db: Kysely<Warehouse>,
  teamIds: readonly number[],
): Promise<ReadonlyMap<number, Erasures>> {
  if (teamIds.length === 0) return new Map()
  const { rows } = await sql<{ teamId: number; key: Buffer | null }>`
    select team_id as "teamId", intake_ops.hold_erasures(team_id) as key
    from unnest(${[...teamIds]}::smallint[]) as wanted (team_id)`.execute(db)
  return new Map(
    rows.flatMap(({ teamId, key }) => (key === null ? [] : [[teamId, erasuresUnder(key, teamId)] as const])),
  )
}

function erasuresUnder(key: Buffer, teamId: number): Erasures {
  return {
    teamId,
    hashOf: ({ stream, id }) => createHmac('sha256', key).update(`${teamId}\n${stream}\n${id}`).digest('hex'),
  }
}

/** For a new erasure: the hashes of a team, even if it has no erasures yet. */
export async function hashesOf(db: Kysely<Warehouse>, teamId: number): Promise<Erasures> {
  const { rows } = await sql<{ key: Buffer }>`select key from intake_ops.erasure_key`.execute(db)
  return erasuresUnder(rows[0]!.key, teamId)
}

/** The erased ones of these hashes, each with the hash of its patient. */
export async function erasedAmong(
  db: Kysely<Warehouse>,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (hashes.length === 0) return new Map()
  const { rows } = await sql<{ hash: string; patient: string }>`
    with wanted as materialized (select distinct decode(hash, 'hex') as hash from unnest(${hashes}::text[]) as given (hash))
    select encode(erased.hash, 'hex') as hash, encode(erased.patient_hash, 'hex') as patient
    from wanted join intake_ops.erasures erased using (hash)`.execute(db)
  return new Map(rows.map(({ hash, patient }) => [hash, patient]))
}

/** All erased hashes of a team, each with the hash of its patient, for checking millions of rows. */
export async function erasedOfTeam(
  db: Kysely<Warehouse>,
  { teamId }: Erasures,
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql<{ hash: string; patient: string }>`
    select encode(hash, 'hex') as hash, encode(patient_hash, 'hex') as patient from intake_ops.erasures
    where team_id = ${teamId}`.execute(db)
  return new Map(rows.map(({ hash, patient }) => [hash, patient]))
}

/** The subject for a client id of an export, which may differ from the patient's id. */
export function exportClient(name: string): Subject {
  return { stream: FILES.name, id: `client ${name}` }
}

/** The subject for a row of an export without a client id: the values of a person, which are compared without their case. */
export function exportPerson(values: readonly string[]): Subject {
  return { stream: FILES.name, id: `person ${values.join('\n').toLowerCase()}` }
}

export interface SkippedRecord {
  readonly hash: string
  readonly patient: string
  readonly times: number
}

/**
 * Counts skipped records, and stores the hashes of records that were not yet known to belong to an erased patient: later
 * events about them may not name the patient.
 */
export async function countSkipped(
  db: Kysely<Warehouse>,
  { teamId }: Erasures,
  skipped: readonly SkippedRecord[],
): Promise<void> {
  if (skipped.length === 0) return
  // In order, so that two loads that skip the same wait for each other and never deadlock.
  await sql`
    insert into intake_ops.erasures as known (hash, patient_hash, team_id, skipped, last_skipped_at)
    select decode(hash, 'hex'), decode(patient, 'hex'), ${teamId}, times, now()
    from unnest(${skipped.map((erasure) => erasure.hash)}::text[], ${skipped.map((erasure) => erasure.patient)}::text[],
      ${skipped.map((erasure) => erasure.times)}::bigint[]) as given (hash, patient, times)
    order by 1
    on conflict (hash) do update set skipped = known.skipped + excluded.skipped, last_skipped_at = now()`.execute(
    db,
  )
}

/**
 * Stores records as erased, under the exclusive lock: once this commits, every running load sees them. `former`: hashes of
 * subjects that are known only as hashes.
 */
export async function noteErased(
  db: Kysely<Warehouse>,
  erasures: Erasures,
  patient: string,
  subjects: readonly Subject[],
  former: readonly string[] = [],
): Promise<number> {
  const patientHash = erasures.hashOf({ stream: PERSONS.name, id: patient })
  const hashes = [...subjects.map(erasures.hashOf), ...former]
  return await db.transaction().execute(async (transaction) => {
    await lockAlone(transaction, 'loading', String(erasures.teamId))
    const { numAffectedRows } = await sql`
      insert into intake_ops.erasures (hash, patient_hash, team_id)
      select decode(hash, 'hex'), decode(${patientHash}, 'hex'), ${erasures.teamId}
      from unnest(${hashes}::text[]) as given (hash)
      order by 1
      on conflict do nothing`.execute(transaction)
    return Number(numAffectedRows ?? 0n)
  })
}

/** Cells of a line that come before its columns: team and id. */
const KEY_CELLS = 2

interface Options {
  /** Stores no counts and hashes, for callers that only compare. */
  readonly quietly?: boolean
  /** Teams that this transaction has already found to have no erasures. */
  readonly withoutErasures?: ReadonlySet<number> | undefined
}

/**
 * Removes the records of erased patients from a batch, within the load's transaction.
 *
 * Invariant: a record is not written if it is erased, names an erased patient, or contains an erased record; its own key
 * is then stored as erased, so that an event that names only its id is recognized. Lines are checked only in teams with
 * erasures.
 */
export async function withoutErased(
  { db }: Session,
  stream: Stream,
  lines: BatchLines,
  { quietly = false, withoutErasures }: Options = {},
): Promise<BatchLines> {
  const unchecked = lines.teamIds.filter((teamId) => withoutErasures?.has(teamId) !== true)
  const dropped = new Set<string>()
  for (const erasures of (await openErasuresOf(db, unchecked)).values()) {
    const hashesByLine = subjectHashes(stream, lines, erasures)
    const erased = await erasedAmong(db, [...hashesByLine.values()].flat())
    if (erased.size === 0) continue
    const skipped: SkippedRecord[] = []
    for (const [key, hashes] of hashesByLine) {
      const patient = hashes.map((hash) => erased.get(hash)).find((found) => found !== undefined)
      if (patient === undefined) continue
      dropped.add(key)
      skipped.push({ hash: hashes[0]!, patient, times: 1 })
    }
    if (!quietly) await countSkipped(db, erasures, skipped)
  }
  return dropped.size === 0 ? lines : without(lines, dropped)
}

/** By key, the hashes of the team's records: first of a record's own id, then of the ids that it names. */
function subjectHashes(
  stream: Stream,
  lines: BatchLines,
  { teamId, hashOf }: Erasures,
): ReadonlyMap<string, readonly string[]> {
  const teamPrefix = `${teamId}\t`
  const hashesByKey = new Map<string, string[]>()
  const note = (line: string, columns: readonly NamingColumn[]) => {
    if (!line.startsWith(teamPrefix)) return
    const key = keyOf(line)
    const hashes = hashesByKey.get(key) ?? [hashOf({ stream: stream.name, id: unescaped(idOf(line)) })]
    hashesByKey.set(key, hashes)
    if (columns.length === 0) return
    const cells = line.split('\t')
    for (const { at, names } of columns) {
      const cell = cells[KEY_CELLS + at]!
      if (cell !== '\\N') hashes.push(hashOf({ stream: names, id: unescaped(cell) }))
    }
  }
  const { root, children } = namingColumns(stream)
  for (const line of linesIn(lines.root)) note(line, root)
  children.forEach((columns, index) => {
    if (columns.length === 0) return
    for (const line of linesIn(lines.children[index]!)) note(line, columns)
  })
  return hashesByKey
}

function without(lines: BatchLines, keys: ReadonlySet<string>): BatchLines {
  const keep = (bytes: Buffer, of: (line: string) => string) =>
    linesIn(bytes).filter((line) => !keys.has(of(line)))
  const records = keep(lines.records, (line) => {
    const [team, , id] = line.split('\t', 3)
    return `${team}\t${id}`
  })
  const root = keep(lines.root, keyOf)
  return {
    ...lines,
    count: records.length,
    tombstones: records.filter(isTombstone).length,
    teamIds: teamsIn(root),
    records: bytesOf(records),
    root: bytesOf(root),
    children: lines.children.map((child) => bytesOf(keep(child, keyOf))),
  }
}
