/**
 * Reads one row of a batch upload as a patient.
 *
 * Invariant: a row is refused for the same reasons as a POST /v2/patients, and for a missing name of an emergency
 * contact, a cell without a column and invalid UTF-8. The error names a column and contains no value.
 */
import { CONTACT, NO_FIELDS, type PatientFields, readPatientFields } from './patient-body.ts'

/** The field of a column's cells; a column of kind `none` has no name and must be empty. */
export type Column =
  | { readonly kind: 'field' | 'contact' | 'custom'; readonly name: string; readonly header: string }
  | { readonly kind: 'none' }

export type ReadRow = { readonly fields: PatientFields } | { readonly detail: string }

const REQUIRED = ['first_name', 'last_name'] as const
const FIELDS = new Set(Object.keys(NO_FIELDS))
FIELDS.delete('emergency_contact')
FIELDS.delete('custom_fields')
const CONTACTS = new Map<string, string>(CONTACT.map((name) => [`emergency_${name}`, name]))

const IS_REQUIRED = 'This field is required.'
const FAULTS: Readonly<Record<string, string>> = {
  first_name: 'This field may not be blank.',
  last_name: 'This field may not be blank.',
  email: 'Enter a valid email address.',
  date_birth: 'Enter a date that exists, in the format YYYY-MM-DD.',
  patient_tags: 'Enter each tag as its name and a color of the form #rrggbb, with a semicolon between two.',
}

/** The columns of a header; undefined if a required one is missing or a name repeats. */
export function columnsOf(header: readonly string[]): Column[] | undefined {
  const columns = header.map(columnOf)
  const names = header.map((text) => text.trim().toLowerCase()).filter((name) => name !== '')
  if (new Set(names).size < names.length) return undefined
  return REQUIRED.every((name) => names.includes(name)) ? columns : undefined
}

function columnOf(text: string): Column {
  const header = text.trim()
  const name = header.toLowerCase()
  if (FIELDS.has(name)) return { kind: 'field', name, header: name }
  const contact = CONTACTS.get(name)
  if (contact !== undefined) return { kind: 'contact', name: contact, header: name }
  return header === '' ? { kind: 'none' } : { kind: 'custom', name: header, header }
}

export function readRow(columns: readonly Column[], cells: readonly string[], isUtf8: boolean): ReadRow {
  const given = { field: new Map<string, unknown>(), contact: new Map(), custom: new Map() }
  for (const [at, cell] of cells.entries()) {
    if (cell === '') continue
    const column = columns[at] ?? { kind: 'none' }
    if (column.kind === 'none') return { detail: `non_field_errors: Column ${at + 1} has no name.` }
    if (!isUtf8 && cell.includes('\ufffd')) return { detail: `${column.header}: Enter text in UTF-8.` }
    given[column.kind].set(column.name, column.name === 'patient_tags' ? tagsOf(cell) : cell)
  }
  const missing = REQUIRED.find((name) => !given.field.has(name))
  if (missing !== undefined) return { detail: `${missing}: ${IS_REQUIRED}` }
  const nameless = REQUIRED.find((name) => given.contact.size > 0 && !given.contact.get(name)?.trim())
  if (nameless !== undefined) return { detail: `emergency_${nameless}: ${IS_REQUIRED}` }
  const read = readPatientFields({
    ...Object.fromEntries(given.field),
    emergency_contact: given.contact.size === 0 ? null : Object.fromEntries(given.contact),
    custom_fields: Object.fromEntries(given.custom),
  })
  if ('fault' in read) return { detail: `${read.fault}: ${FAULTS[read.fault] ?? 'Enter a valid value.'}` }
  return { fields: { ...NO_FIELDS, ...read.fields } }
}

/** `VIP #ff0000; Recall #00aa00`. A tag without a color gets an empty one, which validation refuses. */
function tagsOf(cell: string): { name: string; color: string }[] {
  const parts = cell.split(';').map((part) => part.trim())
  return parts
    .filter((part) => part !== '')
    .map((part) => {
      const [, name = part, color = ''] = /^(.*\S)\s+(#\S+)$/.exec(part) ?? []
      return { name, color }
    })
}
