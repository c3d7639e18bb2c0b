/**
 * Reads all imports of the command line.
 *
 * Invariant: every file is either imported or in the report with the reason; a path of the command line that cannot be
 * read is an error.
 */
import { EmulatorOptionError } from '../options.ts'
import type { Imported } from '../world/seeded/seed.ts'
import { importPatients } from './patients.ts'
import { type ImportedForms, importQuestionnaires } from './questionnaire.ts'
import { reasonOf } from './read-text.ts'
import { type ImportedSurvey, importSurvey } from './survey.ts'

export interface ImportReport {
  readonly patients: number
  readonly forms: number
  readonly questions: number
  /** Of a survey. */
  readonly responses: number
  /** Files that are not questionnaires. */
  readonly skipped: readonly string[]
  /** Files that could not be read, each with the reason. */
  readonly failed: readonly { readonly file: string; readonly reason: string }[]
}

const NO_FORMS: ImportedForms = { forms: [], questions: 0, skipped: [], failed: [] }

export interface ImportFiles {
  readonly importPatients: string | undefined
  readonly importQuestionnaires: string | undefined
  readonly importSurvey: readonly string[]
}

export async function readImports(files: ImportFiles): Promise<{ imported: Imported; report: ImportReport }> {
  const people = (await named('import-patients', files.importPatients, importPatients)) ?? []
  const { forms, questions, skipped, failed } =
    (await named('import-questionnaires', files.importQuestionnaires, importQuestionnaires)) ?? NO_FORMS
  const patients = [...people]
  const read: ImportedSurvey[] = []
  const surveys: Imported['surveys'][number][] = []
  for (const path of files.importSurvey) {
    const survey = (await named('import-survey', path, importSurvey))!
    surveys.push({ form: read.length, firstPatient: patients.length, rows: survey.rows })
    patients.push(...survey.clients)
    read.push(survey)
  }
  const imported: Imported = { patients, forms: [...read.map(({ form }) => form), ...forms], surveys }
  const report = {
    patients: imported.patients.length,
    forms: imported.forms.length,
    questions: read.reduce((sum, survey) => sum + survey.questions, questions),
    responses: read.reduce((sum, survey) => sum + survey.rows.length, 0),
    skipped,
    failed,
  }
  return { imported, report }
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
    throw new EmulatorOptionError(option, `${path} cannot be read: ${reasonOf(error)}`)
  }
}
