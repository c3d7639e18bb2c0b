/**
 * What analysts see, brought up to date after a run: new questions are noted, wide views follow their forms.
 *
 * Invariant: a run that loaded well does not fail here: what went wrong is told, and tried again by the next one.
 */
import type { Kysely } from 'kysely'
import { SQLSTATE, sqlstateOf } from '../sqlstate.ts'
import type { Warehouse } from '../tables.ts'
import { noteQuestions } from './classify.ts'
import { refreshWideViews } from './wide-views.ts'

/** Null, or why the views are not as new as the tables. */
export async function refreshAnalytics(db: Kysely<Warehouse>): Promise<string | null> {
  try {
    await noteQuestions(db)
    await refreshWideViews(db)
    return null
  } catch (error) {
    const state = sqlstateOf(error)
    if (state === undefined) throw error
    return state === SQLSTATE.insufficientPrivilege
      ? 'the wide views are not up to date: only who owns the schemas may make them; run intake-sync migrate as the owner'
      : `the wide views are not up to date (SQLSTATE ${state}); the next run tries again`
  }
}
