/**
 * Reads all imports of the command line; patients from any CSV or JSON file.
 *
 * Invariant: every file is either imported or in the report with the reason; a path of the command line that cannot be
 * read is an error. Every value of a file of patients is in the patient of its row: in the field that its header means,
 * else in custom_fields under the unchanged header. Fields that the file does not have are empty.
 */
import { extname } from 'node:path'
import { parse } from 'csv-parse'
import { isDate, NO_FIELDS, type PatientFields } from '../http/resources/patient-body.ts'
import { EmulatorOptionError } from '../options.ts'
import type { Imported } from '../world/seeded/seed.ts'
import { type ImportedForms, importQuestionnaires } from './questionnaire.ts'
import { readText, reasonOf } from './read-text.ts'
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

type TextField = Exclude<keyof PatientFields, 'emergency_contact' | 'patient_tags' | 'custom_fields'>

/** Headers, in lower case and without anything but letters and digits, by the field that they mean. */
const HEADERS: Readonly<Record<TextField, readonly string[]>> = {
  external_id: ['externalid', 'recid', 'recordid', 'id', 'customerid', 'patientid', 'clientid'],
  first_name: ['firstname', 'givenname', 'namefirst', 'first', 'forename'],
  last_name: ['lastname', 'surname', 'namelast', 'last', 'familyname'],
  email: ['email', 'emailaddress', 'mail'],
  phone_number: ['phonenumber', 'phone', 'telephone', 'mobile'],
  date_birth: ['datebirth', 'dateofbirth', 'birthdate', 'dob'],
  sex_at_birth: ['sexatbirth', 'sex', 'gender'],
  provider: ['provider'],
  address: ['address', 'address1', 'streetaddress'],
  address2: ['address2'],
  city: ['city', 'suburb', 'town'],
  state: ['state'],
  zipcode: ['zipcode', 'zip', 'postcode', 'postalcode'],
}

const FIELD_OF = new Map(
  Object.entries(HEADERS).flatMap(([field, names]) =>
    names.map((name) => [name, field as TextField] as const),
  ),
)

/** Reads `file`. Throws an error with the reason if it is not a list of people. */
async function importPatients(file: string): Promise<PatientFields[]> {
  const text = readText(file)
  if (extname(file).toLowerCase() === '.json') return fromJson(text)
  return fromCsv(text)
}

function fromJson(text: string): PatientFields[] {
  const rows: unknown = JSON.parse(text)
  if (!Array.isArray(rows)) throw new Error('is not a JSON array')
  return rows.map((row: unknown) => {
    if (typeof row !== 'object' || row === null || Array.isArray(row))
      throw new Error('contains an item that is not an object')
    const cells = Object.entries(row).filter(([, value]) => value !== null)
    return patientOf(cells.map(([header, value]) => [header, textOf(value)]))
  })
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

async function fromCsv(text: string): Promise<PatientFields[]> {
  const options = { skip_empty_lines: true, relax_column_count: true }
  const rows: string[][] = []
  for await (const row of parse(text, { ...options, ltrim: hasSpacedCommas(text) })) rows.push(row)
  const header = rows.shift()
  if (header === undefined) throw new Error('is empty')
  const names = header.map((name) => name.trim())
  return rows.map((row) => patientOf(row.map((cell, index) => [names[index] ?? `column ${index + 1}`, cell])))
}

/** True if a space follows every comma of the header; that space is not part of the values. */
function hasSpacedCommas(text: string): boolean {
  const header = /^[^\r\n]*/.exec(text)?.[0] ?? ''
  return header.includes(', ') && !/,(?! )/.test(header)
}

function patientOf(cells: readonly (readonly [header: string, value: string])[]): PatientFields {
  const fields = new Map<TextField, string>()
  const custom: [string, string][] = []
  for (const [header, value] of cells) {
    const field = FIELD_OF.get(header.toLowerCase().replaceAll(/[^a-z0-9]/g, ''))
    const fitting = field === undefined || fields.has(field) ? undefined : asWritten(field, value)
    if (field !== undefined && fitting !== undefined) fields.set(field, fitting)
    else custom.push([unused(header, custom), value])
  }
  return { ...NO_FIELDS, ...Object.fromEntries(fields), custom_fields: Object.fromEntries(custom) }
}

/** The value in the format of the field; undefined if it is invalid there. */
function asWritten(field: TextField, value: string): string | undefined {
  if (field !== 'date_birth') return value
  const iso = /^\d{8}$/.test(value) ? `${value.slice(0, 4)}-${value.slice(4, 6)}-${value.slice(6)}` : value
  return isDate(iso) ? iso : undefined
}

/** A key that no value has yet: headers repeat. */
function unused(header: string, custom: readonly [string, string][]): string {
  let key = header
  for (let index = 2; custom.some(([used]) => used === key); index += 1) key = `${header} (${index})`
  return key
}
