/**
 * What the warehouse has to hold of a service's world, worked out from the world alone, without the declarations of
 * `src/streams`: whoever maps a column wrongly there is contradicted here.
 */
import type { World } from '../../../src/emulator/world/world.ts'
import { query } from './scene.ts'

type Row = Readonly<Record<string, unknown>>
export type Tables = Readonly<Record<string, readonly string[]>>

const CONTACT = [
  ...['first_name', 'last_name', 'phone_number', 'relationship'],
  ...['address', 'address2', 'city', 'state', 'zipcode'],
] as const

/** Every row of every table, by table, as sorted lines of JSON with sorted keys. */
export function expectedOf(world: World): Tables {
  const tables: Record<string, Row[]> = {}
  const put = (table: string, row: Row) => {
    tables[table] ??= []
    tables[table].push(row)
  }
  for (const patient of rowsOf(world.patients)) {
    const { id, emergency_contact: contact, patient_tags, custom_fields, ...fields } = patient
    put('patients', { id, ...stamped(fields) })
    if (contact !== null && Object.keys(contact).length > 0) {
      const cells = Object.fromEntries(CONTACT.map((name) => [name, contact[name] ?? null]))
      put('patient_emergency_contacts', { patient_id: id, ...cells })
    }
    patient_tags.forEach((tag, at) => {
      put('patient_tags', { patient_id: id, position: at + 1, ...tag })
    })
    for (const [key, value] of Object.entries(custom_fields)) {
      put('patient_custom_fields', { patient_id: id, key, value })
    }
  }
  for (const { id, questions, ...fields } of rowsOf(world.forms)) {
    put('forms', { id, ...stamped(fields) })
    questions.forEach((question, at) => {
      const { text, help_text, order: sort_order } = question
      const place = { form_id: id, position: at + 1, question_id: question.id }
      put('form_questions', { ...place, ...question.question_type, text, help_text, sort_order })
      question.choices.forEach((choice, of) => {
        const where = { form_id: id, question_position: at + 1, position: of + 1, question_id: question.id }
        put('question_choices', { ...where, choice_id: choice.id, text: choice.text_value })
      })
    })
  }
  for (const { id, forms, ...fields } of rowsOf(world.packets)) {
    put('packets', { id, ...stamped(fields) })
    // A form that was deleted is in no packet any more.
    const members = forms.filter((form) => world.forms.get(form) !== undefined)
    members.forEach((form_id, at) => {
      put('packet_forms', { packet_id: id, position: at + 1, form_id })
    })
  }
  for (const { id, input_fields, ...fields } of rowsOf(world.documents)) {
    put('documents', { id, ...stamped(fields) })
    input_fields.forEach(({ id: field_id, ...field }, at) => {
      put('document_input_fields', { document_id: id, position: at + 1, field_id, ...field })
    })
  }
  return Object.fromEntries(Object.entries(tables).map(([name, rows]) => [name, lines(rows)]))
}

/** The same tables as the warehouse holds them, of its one team, without tombstones. */
export async function heldBy(url: string): Promise<Tables> {
  const names = await query<{ name: string; root: boolean }>(
    url,
    `select table_name as name, bool_or(column_name = '_deleted_at') as root from information_schema.columns
     where table_schema = 'intake' and table_name <> 'teams' group by 1`,
  )
  const tables: Record<string, readonly string[]> = {}
  for (const { name, root } of names) {
    const live = root ? 'where _deleted_at is null' : ''
    const rows = await query<{ row: Row }>(url, `select to_jsonb(t) as row from intake.${name} t ${live}`)
    const plain = rows.map(({ row }) =>
      Object.fromEntries(
        Object.entries(row).filter(([column]) => column !== 'team_id' && !column.startsWith('_')),
      ),
    )
    if (plain.length > 0) tables[name] = lines(plain)
  }
  return tables
}

function lines(rows: readonly Row[]): readonly string[] {
  return rows.map((row) => JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)))).sort()
}

/** Times as Postgres writes them into JSON: without zeros at the end of the fraction. */
function stamped(fields: { readonly created_at: string; readonly updated_at: string }): Row {
  const write = (stamp: string) => `${stamp.replace(/(?:\.0+|(\.\d*?)0+)?Z$/, '$1')}+00:00`
  return { ...fields, created_at: write(fields.created_at), updated_at: write(fields.updated_at) }
}

function rowsOf<T>(table: { readonly end: number; at(index: number): T | undefined }): readonly T[] {
  return Array.from({ length: table.end }, (_, index) => table.at(index)).filter((row) => row !== undefined)
}
