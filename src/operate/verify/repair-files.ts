/**
 * The files of exports that differ, fetched and loaded again.
 *
 * Invariant: a file is loaded whole, as a backfill loads it, whatever is held of it; problems and questions of its
 * export are told anew.
 */
import { readFile } from '../../extract/exports/read-file.ts'
import { heldExports } from '../../load/exports/export-file.ts'
import { matchQuestions } from '../../load/exports/match-questions.ts'
import { joinProblems } from '../../load/exports/root-problems.ts'
import type { Difference } from './find.ts'
import type { Looking } from './look-again.ts'

export async function repairFiles({ source, session }: Looking, found: readonly Difference[]): Promise<void> {
  const { teamId } = source.taken
  const held = await heldExports(
    session.db,
    teamId,
    found.map(({ id }) => id),
  )
  for (const [id, known] of held) {
    await source.loaders.run((loader) => readFile(source, loader, id, { ...known, hash: null }, false))
  }
  await joinProblems(session.db, teamId)
  await matchQuestions(session.db, teamId)
}
