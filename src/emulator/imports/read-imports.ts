/**
 * Everything that the imports of the command line bring.
 *
 * Invariant: every file is either in the world or named in the report with the reason why not.
 */
import type { Imported } from '../world/world.ts'

export interface ImportReport {
  readonly patients: number
  readonly forms: number
  readonly questions: number
  /** Files that are no questionnaires. */
  readonly skipped: readonly string[]
  /** Files that could not be read, each with the reason. */
  readonly failed: readonly { readonly file: string; readonly reason: string }[]
}

export function readImports(
  patients: string | undefined,
  questionnaires: string | undefined,
): { imported: Imported; report: ImportReport } {
  void patients
  void questionnaires
  return {
    imported: { patients: [], forms: [] },
    report: { patients: 0, forms: 0, questions: 0, skipped: [], failed: [] },
  }
}
