/** Patients (specification, section 2.1), with one emergency contact, tags and custom fields. */
import type { Problem } from '../core/envelope.ts'
import type { JsonObject } from '../core/json.ts'
import { type Cell, readCell } from './parts/cell.ts'
import { cellsOf, itemsOf, objectOf } from './parts/parts.ts'
import { type Child, column, type Stream, text, time } from './stream.ts'

const CONTACT_COLUMNS = [
  text('first_name'),
  text('last_name'),
  text('phone_number'),
  text('relationship'),
  text('address'),
  text('address2'),
  text('city'),
  text('state'),
  text('zipcode'),
]

const emergencyContacts: Child = {
  table: 'patient_emergency_contacts',
  parent: 'patient_id',
  columns: CONTACT_COLUMNS.map((each) => each.name),
  rows(record, problems) {
    const contact = objectOf(record.emergency_contact, 'emergency_contact', problems)
    return contact === null ? [] : [cellsOf(CONTACT_COLUMNS, contact, 'emergency_contact', problems)]
  },
}

const TAG_COLUMNS = [text('name'), text('color')]

const tags: Child = {
  table: 'patient_tags',
  parent: 'patient_id',
  columns: ['position', 'name', 'color'],
  rows(record, problems) {
    const rows: Cell[][] = []
    for (const { value, position, path } of itemsOf(record.patient_tags, 'patient_tags', problems)) {
      if (typeof value === 'string') rows.push([String(position), value, null])
      else {
        const tag = objectOf(value, path, problems)
        if (tag !== null) rows.push([String(position), ...cellsOf(TAG_COLUMNS, tag, path, problems)])
      }
    }
    return rows
  },
}

/** In bytes; a longer key would not fit the index of its table, and stays in the payload and the problem. */
const MAX_KEY_BYTES = 1500

const customFields: Child = {
  table: 'patient_custom_fields',
  parent: 'patient_id',
  columns: ['key', 'value'],
  rows(record, problems) {
    const fields = objectOf(record.custom_fields, 'custom_fields', problems)
    return fields === null ? [] : customFieldRows(fields, problems)
  },
}

function customFieldRows(fields: JsonObject, problems: Problem[]): Cell[][] {
  const rows: Cell[][] = []
  const tooLong: string[] = []
  for (const key of Object.keys(fields)) {
    if (key.length * 3 > MAX_KEY_BYTES && Buffer.byteLength(key) > MAX_KEY_BYTES) tooLong.push(key)
    else rows.push([key, readCell('text', fields[key], `custom_fields.${key}`, problems)])
  }
  // In an order of their own: that of the payload does not last in jsonb.
  for (const key of tooLong.sort()) {
    const original = { [key]: fields[key] }
    problems.push({ path: 'custom_fields', reason: 'a name too long for a key', original })
  }
  return rows
}

export const patients: Stream = {
  name: 'patients',
  source: 'patient',
  list: { name: 'patients', path: '/v2/patients' },
  one: { name: 'patient', path: '/v2/patients/{id}' },
  table: 'patients',
  columns: [
    text('external_id'),
    text('first_name'),
    text('last_name'),
    text('email'),
    text('phone_number'),
    column('date', 'date_birth'),
    text('sex_at_birth'),
    column('reference', 'provider', 'provider_id'),
    text('address'),
    text('address2'),
    text('city'),
    text('state'),
    text('zipcode'),
    time('created_at'),
    time('updated_at'),
  ],
  children: [emergencyContacts, tags, customFields],
  otherFields: ['emergency_contact', 'patient_tags', 'custom_fields'],
  safeNames: [
    ...['first_name', 'last_name', 'email', 'phone_number', 'relationship', 'external_id'],
    ...['address', 'address2', 'city', 'state', 'zipcode', 'color'],
  ],
  freeMaps: { custom_fields: [] },
  objects: ['emergency_contact'],
  person: {
    alias: ['external_id'],
    same: ['email', 'first_name', 'last_name'],
    contacts: ['email', 'phone_number'],
  },
  analysts: { views: ['patients'] },
}
