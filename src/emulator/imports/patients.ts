/**
 * Patients from any CSV or JSON file.
 *
 * Invariant: every value of the file is in the patient of its row: in the field that its header means, else in
 * custom_fields under the unchanged header. Fields that the file does not have are empty.
 */
import { extname } from 'node:path'
import { parse } from 'csv-parse'
import { isDate, NO_FIELDS, type PatientFields } from '../http/resources/patient-body.ts'
import { readText } from './read-text.ts'

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
export async function importPatients(file: string): Promise<PatientFields[]> {
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
