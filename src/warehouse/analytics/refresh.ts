/**
 * What analysts see, brought up to date after a run: new questions are noted.
 *
 * Invariant: a run that loaded well does not fail here for want of rights: what only the owner of the tables may make
 * is left to `migrate`.
 */
import type { Kysely } from 'kysely'
import type { Warehouse } from '../tables.ts'
import { noteQuestions } from './classify.ts'

export async function refreshAnalytics(db: Kysely<Warehouse>): Promise<void> {
  await noteQuestions(db)
}
