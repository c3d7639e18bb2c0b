/**
 * Erases one patient on request, everywhere.
 *
 *     found ─► noted as erased ─► removed, in one transaction ─► found again … until nothing is ─► statistics
 *
 * Invariant: once the records are noted, no load writes anything of them (load/erasures.ts), so what is removed stays
 * removed, beside whatever runs. One that is killed halfway is completed when it is run again. No id is kept, and
 * none is in an error.
 */
import { type Kysely, sql } from 'kysely'
import type { Clock } from '../../core/clock.ts'
import { IntakeError, verdictOf } from '../../core/errors.ts'
import {
  clientCalled,
  type Erasures,
  erasedAmong,
  hashesOf,
  noteErased,
} from '../../load/erasures/erasures.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { type Found, findClients, findRecords, isKnown, type Patient, subjectsIn } from './find.ts'
import { refreshStatistics } from './refresh-statistics.ts'
import { nothingRemoved, type Removed, removeRecords } from './remove.ts'
import { removeBodies } from './remove-bodies.ts'
import { removeExportRows } from './remove-export-rows.ts'

export type { Patient } from './find.ts'

export interface Sighting {
  /** Records by stream, those that are only history among them. */
  readonly found: Found
  /** True when the patient was erased before, and not forgotten. */
  readonly erasedBefore: boolean
}

/** What is held of the patient. Throws when nothing is and nothing was. */
export async function sight(url: string, patient: Patient): Promise<Sighting> {
  await using session = await openSession({ url, purpose: 'erase' })
  try {
    const { db } = session
    const found = await findRecords(db, patient)
    const erasures = await hashesOf(db, patient.teamId)
    const own = erasures.hashOf({ stream: 'patients', id: patient.id })
    const erasedBefore = (await erasedAmong(db, [own])).size > 0
    if (!erasedBefore && !(await isKnown(db, patient, found))) throw unknownPatient()
    return { found, erasedBefore }
  } catch (error) {
    throw warehouseError(error)
  }
}

export interface Erasing {
  readonly url: string
  readonly patient: Patient
  /** True to keep no hash either: what the service tells of the patient later is loaded again. */
  readonly forget: boolean
  readonly clock: Clock
}

/** A load of a large file holds the lock for minutes; meanwhile no other load is kept waiting for longer than this. */
const LOCK_TIMEOUT_MS = 2_000
const TRIES = 60
const PAUSE_MS = 5_000

export interface Erased extends Removed {
  /** False where Postgres may still remember values of columns, for planning. */
  readonly statisticsRefreshed: boolean
}

export async function erase({ url, patient, forget, clock }: Erasing): Promise<Erased> {
  const removed = nothingRemoved()
  await using session = await openSession({ url, purpose: 'erase', lockTimeoutMs: LOCK_TIMEOUT_MS })
  const erasures = await hashesOf(session.db, patient.teamId)
  // What came between the finding and the noting is found the second time.
  while ((await sweep(session, erasures, patient, removed, clock)) > 0);
  if (forget) await forgetHashes(session.db, erasures, patient)
  const statisticsRefreshed = await patiently(clock, () => refreshStatistics(session.db))
  return { ...removed, statisticsRefreshed }
}

/** Returns how many records were not noted before. */
async function sweep(
  session: Session,
  erasures: Erasures,
  patient: Patient,
  removed: Removed,
  clock: Clock,
): Promise<number> {
  const { db } = session
  const found = await patiently(clock, () => findRecords(db, patient))
  const clients = await patiently(clock, () => findClients(db, patient))
  const subjects = [...subjectsIn(found), ...clients.slice(1).map(clientCalled)]
  const noted = await patiently(clock, () => noteErased(db, erasures, patient.id, subjects))
  const part = await patiently(clock, () => removeAll(db, patient, found, clients))
  for (const name of Object.keys(removed) as (keyof Removed)[]) removed[name] += part[name]
  return noted
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
  const own = erasures.hashOf({ stream: 'patients', id })
  await sql`delete from intake_ops.erasures where patient_hash = decode(${own}, 'hex')`.execute(db)
}

/** Again, for as long as a load may take, where another session was in the way. */
async function patiently<Result>(clock: Clock, work: () => Promise<Result>): Promise<Result> {
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
  return new IntakeError('the warehouse holds nothing of a patient with this id', {
    code: 'unknown_patient',
    verdict: 'stop',
    hint: 'check the id, and name the team with --team; ids are those of the service (intake.patients.id)',
  })
}
