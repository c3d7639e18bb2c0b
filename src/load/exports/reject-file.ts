/**
 * A file that cannot be loaded becomes a dead letter; its bytes are stored in addition to those of the loaded file.
 *
 * Invariant: the rows of an earlier file stay; rejecting the same file again stores neither its bytes nor its dead letter
 * twice.
 */
import type { Session } from '../../warehouse/connect.ts'
import { storeDeadLetters } from '../dead-letters.ts'
import { openErasures } from '../erasures/erasures.ts'
import { assertOurs, type TakenSlice } from '../slice.ts'
import { dropFiles, type ExportFile, keepFile } from './export-file.ts'
import { keepSpool } from './spool.ts'

/** Rejects the file in the session's spool. */
export async function rejectFile(
  session: Session,
  taken: TakenSlice,
  file: ExportFile,
  reason: string,
): Promise<void> {
  const { client, db } = session
  const { teamId } = taken
  const { exportId, hash, bytes, origin } = file
  const place = { teamId, exportId }
  await client.query('begin')
  try {
    const rejected = await db
      .selectFrom('intake_raw.export_files')
      .select('hash')
      .where('team_id', '=', teamId)
      .where('export_id', '=', exportId)
      .where('is_loaded', '=', false)
      .executeTakeFirst()
    if (rejected?.hash.toString('hex') !== hash) {
      await dropFiles(db, place, false)
      await keepFile(db, teamId, file, { isLoaded: false, problems: [] })
      // A file that cannot be read cannot be searched for erased patients: then only its hash is kept.
      if ((await openErasures(db, teamId)) === null)
        await keepSpool(session, file, { ...place, isLoaded: false })
    }
    // The bytes may exceed the size of a row: the dead letter identifies them by hash.
    const body = JSON.stringify({ export_id: exportId, sha256: hash, bytes })
    await storeDeadLetters(db, taken, [{ recordId: exportId, origin, reason, body }])
    await assertOurs(db, taken)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}
