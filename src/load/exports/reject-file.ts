/**
 * A file that cannot be loaded: its bytes are kept beside those of the file that is, and it becomes a dead letter.
 *
 * Invariant: what was loaded of an earlier file stays as it is; the same file met again writes its bytes no second
 * time and is the same dead letter.
 */
import type { Session } from '../../warehouse/connect.ts'
import { storeDeadLetters } from '../dead-letters.ts'
import { openErasures } from '../erasures/erasures.ts'
import { assertOurs, type TakenSlice } from '../slice.ts'
import { dropFiles, type ExportFile, keepFile } from './export-file.ts'
import { keepSpool } from './spool.ts'

/** Sets aside the file that is in the session's spool. */
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
    const held = await db
      .selectFrom('intake_raw.export_files')
      .select('hash')
      .where('team_id', '=', teamId)
      .where('export_id', '=', exportId)
      .where('is_loaded', '=', false)
      .executeTakeFirst()
    if (held?.hash.toString('hex') !== hash) {
      await dropFiles(db, place, false)
      await keepFile(db, teamId, file, { isLoaded: false, problems: [] })
      // A file that cannot be read cannot be searched for erased patients: then only its hash is kept.
      if ((await openErasures(db, teamId)) === null)
        await keepSpool(session, file, { ...place, isLoaded: false })
    }
    // The bytes may be more than a row can hold: the letter says which they are.
    const body = JSON.stringify({ export_id: exportId, sha256: hash, bytes })
    await storeDeadLetters(db, taken, [{ recordId: exportId, origin, reason, body }])
    await assertOurs(db, taken)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}
