/**
 * Everything that the imports of the command line bring.
 *
 * Invariant: every file is either in the world or named in the report with the reason why not; a path that the caller
 * named himself and that cannot be read is an error.
 */
import { EmulatorOptionError } from '../option-error.ts'
import type { Imported } from '../world/world.ts'
import { importPatients } from './patients.ts'
import { type ImportedForms, importQuestionnaires } from './questionnaires.ts'

export interface ImportReport {
  readonly patients: number
  readonly forms: number
  readonly questions: number
  /** Files that are no questionnaires. */
  readonly skipped: readonly string[]
  /** Files that could not be read, each with the reason. */
  readonly failed: readonly { readonly file: string; readonly reason: string }[]
}

const NO_FORMS: ImportedForms = { forms: [], questions: 0, skipped: [], failed: [] }

export async function readImports(
  patientFile: string | undefined,
  questionnaireFolder: string | undefined,
): Promise<{ imported: Imported; report: ImportReport }> {
  const patients = (await named('import-patients', patientFile, importPatients)) ?? []
  const { forms, questions, skipped, failed } =
    (await named('import-questionnaires', questionnaireFolder, importQuestionnaires)) ?? NO_FORMS
  const report = { patients: patients.length, forms: forms.length, questions, skipped, failed }
  return { imported: { patients, forms, surveys: [] }, report }
}

async function named<T>(
  option: string,
  path: string | undefined,
  read: (path: string) => T | Promise<T>,
): Promise<T | undefined> {
  if (path === undefined) return undefined
  try {
    return await read(path)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new EmulatorOptionError(option, `${path} cannot be read: ${reason.split('\n')[0]}`)
  }
}
