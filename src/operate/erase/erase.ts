/**
 * Erases all data of one patient.
 *
 *     find ─► record as erased ─► remove, in one transaction ─► repeat until nothing new is found
 *          ─► statistics ─► [rewrite tables] ─► search for what was removed
 *
 * Invariant: once records are recorded as erased, no load writes them (load/erasures), so they stay removed while other
 * commands run. An interrupted erasure is completed by running it again. No id is stored or appears in an error.
 */
import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import { IntakeError, verdictOf } from '../../core/errors.ts'
import {
  type Erasures,
  erasedAmong,
  exportClient,
  exportPerson,
  hashesOf,
  noteErased,
} from '../../load/erasures.ts'
import { PERSONS } from '../../streams/catalogue.ts'
import { openSession } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { type Found, findRecords, isKnown, type Patient, subjectsIn } from './find.ts'
import { type Clients, findClients, findIdentities } from './identities.ts'
import {
  keepersOf,
  type Rewritten,
  refreshStatistics,
  rewrite,
  tablesToRewrite,
} from './refresh-statistics.ts'
import { nothingRemoved, type Removed, removeRecords } from './remove.ts'
import { removeBodies } from './remove-bodies.ts'
import { removeExportRows } from './remove-export-rows.ts'
import { type Searched, searchEverywhere } from './search.ts'

export type { Patient } from './find.ts'

export interface ErasurePreview {
  /** Includes records that exist only in history. */
  readonly found: Found
  /** True if the hashes of an earlier erasure are still stored. */
  readonly erasedBefore: boolean
  /** Rows of exports without a client id that have the patient's name and e-mail address. */
  readonly unnamedRows: number
}

/** Finds the records of the patient. Throws `unknown_patient` if there are none and none were erased. */
export async function previewErasure(url: string, patient: Patient): Promise<ErasurePreview> {
  await using session = await openSession({ url, purpose: 'erase' })
  try {
    const { db } = session
    const found = await findRecords(db, patient)
    const erasures = await hashesOf(db, patient.teamId)
    const own = erasures.hashOf({ stream: PERSONS.name, id: patient.id })
    const erasedBefore = (await erasedAmong(db, [own])).size > 0
    if (!erasedBefore && !(await isKnown(db, patient, found))) throw unknownPatient()
    const clients = await findClients(db, patient, await findIdentities(db, patient, found))
    return { found, erasedBefore, unnamedRows: clients.unnamed.length }
  } catch (error) {
    throw warehouseError(error)
  }
}

export interface EraseOptions {
  readonly url: string
  readonly patient: Patient
  /** Deletes the hashes too; records of the patient that the service returns later are then loaded again. */
  readonly forget: boolean
  /** Also removes rows of exports without a client id that have the patient's name and e-mail address. */
  readonly unnamedRows?: boolean
  /** Rewrites the tables, called before each; null: does not. */
  readonly onRewrite?: ((table: string, bytes: number) => void) | null
  readonly clock: Clock
}

/** A load of a large file holds its lock for minutes. While this waits, other loads wait for at most this long. */
const LOCK_TIMEOUT_MS = 2_000
const TRIES = 60
const PAUSE_MS = 5_000

export interface Erased extends Removed {
  /** False if planner statistics may still contain values of the patient. */
  readonly statisticsRefreshed: boolean
  /** Rows of exports without a client id that have the patient's name and e-mail address, and were not removed. */
  readonly unnamedLeft: number
  /** Null if no tables were to be rewritten. */
  readonly rewritten: Rewritten | null
  readonly searched: Searched
  /** The keyed hash of the patient's id, in hex digits. */
  readonly patientHash: string
  readonly login: string
}

export async function erase(options: EraseOptions): Promise<Erased> {
  const { url, patient, forget, clock, onRewrite = null } = options
  const removed = nothingRemoved()
  await using session = await openSession({ url, purpose: 'erase', lockTimeoutMs: LOCK_TIMEOUT_MS })
  const { db } = session
  const erasures = await hashesOf(db, patient.teamId)
  const pass: Pass = { db, erasures, ...options, identifiers: new Set([patient.id]), unnamedLeft: 0 }
  // Records that arrive between the search and their recording as erased are found by the next pass.
  while ((await eraseOnce(pass, removed)) > 0);
  const statisticsRefreshed = await withRetries(clock, () => refreshStatistics(db))
  const searched = await searchEverywhere(db, patient, pass.identifiers)
  // After the search: without the hashes, a running load may write the patient again.
  if (forget) await forgetHashes(db, erasures, patient)
  // After the statistics, which have a table too.
  const rewritten = onRewrite === null ? null : await rewriteTables(db, clock, onRewrite)
  const patientHash = erasures.hashOf({ stream: PERSONS.name, id: patient.id })
  const { rows } = await sql<{ login: string }>`select session_user as login`.execute(db)
  const { unnamedLeft } = pass
  const { login } = rows[0]!
  return { ...removed, statisticsRefreshed, unnamedLeft, rewritten, searched, patientHash, login }
}

interface Pass extends EraseOptions {
  readonly db: Kysely<Warehouse>
  readonly erasures: Erasures
  /** What identified the patient and their records, to search for when it is removed. */
  readonly identifiers: Set<string>
  unnamedLeft: number
}

/** One pass. Returns how many records were not yet recorded as erased. */
async function eraseOnce(pass: Pass, removed: Removed): Promise<number> {
  const { db, erasures, patient, clock, unnamedRows = false } = pass
  const found = await withRetries(clock, () => findRecords(db, patient))
  const identities = await withRetries(clock, () => findIdentities(db, patient, found))
  const clients = await withRetries(clock, () => findClients(db, patient, identities))
  const named = unnamedRows ? identities.names.map(exportPerson) : []
  const subjects = [...subjectsIn(found), ...clients.ids.slice(1).map(exportClient), ...named]
  const added = await withRetries(clock, () =>
    noteErased(db, erasures, patient.id, subjects, identities.former),
  )
  const going = unnamedRows ? clients : { ...clients, unnamed: [] }
  const part = await withRetries(clock, () => removeAll(db, patient, found, going))
  for (const name of Object.keys(removed) as (keyof Removed)[]) removed[name] += part[name]
  const { aliases, contacts } = identities
  for (const text of [...found.values(), clients.ids, aliases, contacts].flat()) pass.identifiers.add(text)
  if (!unnamedRows) pass.unnamedLeft = Math.max(pass.unnamedLeft, clients.unnamed.length)
  return added
}

async function removeAll(
  db: Kysely<Warehouse>,
  patient: Patient,
  found: Found,
  clients: Clients,
): Promise<Removed> {
  return await db.transaction().execute(async (transaction) => {
    const removed = nothingRemoved()
    await removeRecords(transaction, patient, found, removed)
    await removeBodies(transaction, patient, removed)
    await removeExportRows(transaction, patient.teamId, clients, removed)
    return removed
  })
}

async function forgetHashes(db: Kysely<Warehouse>, erasures: Erasures, { id }: Patient): Promise<void> {
  const own = erasures.hashOf({ stream: PERSONS.name, id })
  await sql`delete from intake_ops.erasures where patient_hash = decode(${own}, 'hex')`.execute(db)
}

async function rewriteTables(
  db: Kysely<Warehouse>,
  clock: Clock,
  onRewrite: NonNullable<EraseOptions['onRewrite']>,
): Promise<Rewritten> {
  const { rows } = await sql<{ now: string }>`select pg_current_xact_id()::xid::text as now`.execute(db)
  let keepers = await keepersOf(db, rows[0]!.now)
  for (let tries = 1; keepers.length > 0 && tries < TRIES; tries++) {
    await clock.sleep(PAUSE_MS)
    keepers = await keepersOf(db, rows[0]!.now)
  }
  const tables = await tablesToRewrite(db)
  const own = tables.filter((table) => table.own)
  for (const { name, bytes } of own) {
    onRewrite(name, bytes)
    await withRetries(clock, () => rewrite(db, name))
  }
  const notOwned = tables.filter((table) => !table.own).map(({ name }) => name)
  const isComplete = keepers.length === 0 && notOwned.length === 0
  return { tables: own.map(({ name }) => name), notOwned, keepers, isComplete }
}

/** Retries while another session holds a lock; the limit exceeds the duration of a long load. */
async function withRetries<Result>(clock: Clock, work: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (thrown) {
      const error = warehouseError(thrown)
      if (verdictOf(error) !== 'retry' || error.code === 'warehouse_unreachable' || tries === TRIES)
        throw error
      await clock.sleep(PAUSE_MS)
    }
  }
}

function unknownPatient(): IntakeError {
  return new IntakeError('the warehouse has no data of a patient with this id', {
    code: 'unknown_patient',
    verdict: 'stop',
    hint: `check the id, and set --team; it is the service’s id (intake.${PERSONS.table}.id)`,
  })
}
