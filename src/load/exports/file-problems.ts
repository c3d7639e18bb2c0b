/**
 * Problems of a loaded file, for `_problems` of the export's row.
 *
 * Invariant: every problem is counted; the first `MOST_LISTED` are listed, then the total, so that a file with an error
 * in each of a million rows does not make a row of a gigabyte.
 */
import type { Problem } from '../../core/problem.ts'
import { countFinding } from '../../normalize/lines.ts'

/** Prefix of the paths, which distinguishes them from problems of the list entry. */
export const FILE_PATH = 'raw_text'

const MOST_LISTED = 1_000

export interface FileProblems {
  readonly count: number
  /** Occurrences, as in `Findings`; the path has no positions. */
  readonly at: Map<string, number>
  /** `path` is the position in the file, such as `rows[12].sent_at`; `general` is the path without numbers. */
  add(path: string, general: string, reason: string, original: unknown): void
  /** For `_problems`. */
  listed(): readonly Problem[]
}

export function openFileProblems(teamId: number): FileProblems {
  const listed: Problem[] = []
  const at = new Map<string, number>()
  let count = 0
  return {
    get count() {
      return count
    },
    at,
    add(path, general, reason, original) {
      count += 1
      countFinding(at, teamId, `${FILE_PATH}.${general}`, reason)
      if (listed.length < MOST_LISTED) listed.push({ path: `${FILE_PATH}.${path}`, reason, original })
    },
    listed() {
      if (count === listed.length) return listed
      const reason = 'more problems than are listed here; this is how many there are in all'
      return [...listed, { path: FILE_PATH, reason, original: count }]
    },
  }
}
