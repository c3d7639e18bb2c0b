/**
 * Reads the body of a patient (specification, section 2.1), with the validation of the service.
 *
 * Invariant: the result contains only fields of a patient, each of its type; an error names the first invalid field.
 * Unknown fields are ignored.
 */
import type { EmergencyContact, Patient, Tag } from '../../world/records.ts'

export type PatientFields = Omit<Patient, 'id' | 'created_at' | 'updated_at'>

type ReadField<T> = { readonly value: T } | undefined

const TEXTS = ['first_name', 'last_name', 'address', 'address2', 'city', 'state', 'zipcode'] as const
const NULLABLE = ['external_id', 'email', 'phone_number', 'date_birth', 'sex_at_birth', 'provider'] as const
export const CONTACT = [
  ...['first_name', 'last_name', 'phone_number', 'relationship'],
  ...['address', 'address2', 'city', 'state', 'zipcode'],
] as const

export const NO_FIELDS: PatientFields = {
  external_id: null,
  first_name: '',
  last_name: '',
  email: null,
  phone_number: null,
  date_birth: null,
  sex_at_birth: null,
  provider: null,
  address: '',
  address2: '',
  city: '',
  state: '',
  zipcode: '',
  emergency_contact: null,
  patient_tags: [],
  custom_fields: {},
}

const READERS: Readonly<Record<string, (value: unknown) => ReadField<unknown>>> = {
  ...Object.fromEntries(TEXTS.map((name) => [name, readText])),
  ...Object.fromEntries(NULLABLE.map((name) => [name, readNullable])),
  first_name: readName,
  last_name: readName,
  email: readEmail,
  date_birth: readDate,
  emergency_contact: readContact,
  patient_tags: readTags,
  custom_fields: readCustomFields,
}

/** The fields of `body`, or the name of the first invalid one (`non_field_errors` if it is not an object). */
export function readPatientFields(body: unknown): { fields: Partial<PatientFields> } | { fault: string } {
  if (!isObject(body)) return { fault: 'non_field_errors' }
  const fields: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(body)) {
    const read = Object.hasOwn(READERS, name) ? READERS[name] : undefined
    if (read === undefined) continue
    const result = read(value)
    if (result === undefined) return { fault: name }
    fields[name] = result.value
  }
  return { fields: fields as Partial<PatientFields> }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function readText(value: unknown): ReadField<string> {
  if (value === null) return { value: '' }
  return typeof value === 'string' ? { value } : undefined
}

function readNullable(value: unknown): ReadField<string | null> {
  return value === null || typeof value === 'string' ? { value } : undefined
}

function readName(value: unknown): ReadField<string> {
  return typeof value === 'string' && value.trim() !== '' ? { value } : undefined
}

export function readEmail(value: unknown): ReadField<string | null> {
  if (value === null || value === '') return { value }
  return typeof value === 'string' && /^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$/.test(value) ? { value } : undefined
}

function readDate(value: unknown): ReadField<string | null> {
  if (value === null || value === '') return { value: null }
  return typeof value === 'string' && isDate(value) ? { value } : undefined
}

/** True for a date that exists, written YYYY-MM-DD. */
export function isDate(text: string): boolean {
  if (!/^(?!0000)\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const date = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text)
}

function readContact(value: unknown): ReadField<EmergencyContact | null> {
  if (value === null) return { value: null }
  if (!isObject(value)) return undefined
  const contact: Record<string, string> = {}
  for (const name of CONTACT) {
    const text = value[name]
    if (text === undefined || text === null) continue
    if (typeof text !== 'string') return undefined
    contact[name] = text
  }
  return { value: contact }
}

function readTags(value: unknown): ReadField<Tag[]> {
  if (value === null) return { value: [] }
  if (!Array.isArray(value)) return undefined
  const tags: Tag[] = []
  for (const tag of value) {
    if (!isObject(tag) || typeof tag.name !== 'string' || typeof tag.color !== 'string') return undefined
    if (!/^#[0-9a-f]{6}$/i.test(tag.color)) return undefined
    tags.push({ name: tag.name, color: tag.color })
  }
  return { value: tags }
}

function readCustomFields(value: unknown): ReadField<Record<string, string>> {
  if (value === null) return { value: {} }
  if (!isObject(value) || Object.values(value).some((one) => typeof one !== 'string')) return undefined
  return { value: value as Record<string, string> }
}
