/**
 * Erases all data of one patient.
 *
 *     find ─► record as erased ─► remove, in one transaction ─► repeat until nothing new is found ─► statistics
 *
 * Invariant: once records are recorded as erased, no load writes them (load/erasures), so they stay removed while other
 * commands run. An interrupted erasure is completed by running it again. No id is stored or appears in an error.
 */
import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import { IntakeError, verdictOf } from '../../core/errors.ts'
import { type Erasures, erasedAmong, exportClient, hashesOf, noteErased } from '../../load/erasures.ts'
import { PERSONS } from '../../streams/catalogue.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { type Found, findClients, findRecords, isKnown, type Patient, subjectsIn } from './find.ts'
import { refreshStatistics } from './refresh-statistics.ts'
import { nothingRemoved, type Removed, removeRecords } from './remove.ts'
import { removeBodies } from './remove-bodies.ts'
import { removeExportRows } from './remove-export-rows.ts'

export type { Patient } from './find.ts'

export interface ErasurePreview {
  /** Includes records that exist only in history. */
  readonly found: Found
  /** True if the hashes of an earlier erasure are still stored. */
  readonly erasedBefore: boolean
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
    return { found, erasedBefore }
  } catch (error) {
    throw warehouseError(error)
  }
}

export interface EraseOptions {
  readonly url: string
  readonly patient: Patient
  /** Deletes the hashes too; records of the patient that the service returns later are then loaded again. */
  readonly forget: boolean
  readonly clock: Clock
}

/** A load of a large file holds its lock for minutes. While this waits, other loads wait for at most this long. */
const LOCK_TIMEOUT_MS = 2_000
const TRIES = 60
const PAUSE_MS = 5_000

export interface Erased extends Removed {
  /** False if planner statistics may still contain values of the patient. */
  readonly statisticsRefreshed: boolean
}

export async function erase({ url, patient, forget, clock }: EraseOptions): Promise<Erased> {
  const removed = nothingRemoved()
  await using session = await openSession({ url, purpose: 'erase', lockTimeoutMs: LOCK_TIMEOUT_MS })
  const erasures = await hashesOf(session.db, patient.teamId)
  // Records that arrive between the search and their recording as erased are found by the next pass.
  while ((await eraseOnce(session, erasures, patient, removed, clock)) > 0);
  if (forget) await forgetHashes(session.db, erasures, patient)
  const statisticsRefreshed = await withRetries(clock, () => refreshStatistics(session.db))
  return { ...removed, statisticsRefreshed }
}

/** One pass. Returns how many records were not yet recorded as erased. */
async function eraseOnce(
  session: Session,
  erasures: Erasures,
  patient: Patient,
  removed: Removed,
  clock: Clock,
): Promise<number> {
  const { db } = session
  const found = await withRetries(clock, () => findRecords(db, patient))
  const clients = await withRetries(clock, () => findClients(db, patient))
  const subjects = [...subjectsIn(found), ...clients.slice(1).map(exportClient)]
  const added = await withRetries(clock, () => noteErased(db, erasures, patient.id, subjects))
  const part = await withRetries(clock, () => removeAll(db, patient, found, clients))
  for (const name of Object.keys(removed) as (keyof Removed)[]) removed[name] += part[name]
  return added
}

async function removeAll(
  db: Kysely<Warehouse>,
  patient: Patient,
  found: Found,
  clients: readonly string[],
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
    hint: `check the id, and set --team; the id is the one of the service (intake.${PERSONS.table}.id)`,
  })
}
