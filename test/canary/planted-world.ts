/**
 * A whole clinic with the canary in every text that a person may have written, or that is about one.
 *
 * Invariant: everything that the service shows of its first team, in any shape, contains the canary in each of these
 * texts, also after changes; ids, times and terms of the service are unchanged.
 */
import type { Control } from '../../src/emulator/control.ts'
import type { Emulator } from '../../src/emulator/server.ts'
import type { Row, Table } from '../../src/emulator/world/table.ts'
import type { World } from '../../src/emulator/world/world.ts'
import { CANARY } from '../e2e/support/canary.ts'

/** Fields whose text is a person's, or may be. */
const TEXTS: ReadonlySet<string> = new Set([
  ...['first_name', 'last_name', 'email', 'phone_number', 'external_id', 'sex_at_birth', 'relationship'],
  ...['address', 'address2', 'city', 'state', 'zipcode', 'name', 'color', 'text', 'help_text', 'label'],
  ...['text_value', 'answer_text', 'signer_name', 'form_name', 'content'],
  ...['target_email', 'target_phone_number'],
])

const isMarked = (text: string) => text.includes(CANARY)

/** The same record with the canary in each of its texts. */
function marked<Value>(value: Value, field = ''): Value {
  if (typeof value === 'string') return (TEXTS.has(field) ? withMark(value, field) : value) as Value
  if (Array.isArray(value)) return value.map((each) => marked(each, field)) as Value
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, each]) =>
    field === 'custom_fields' ? [withMark(name), withMark(String(each))] : [name, marked(each, name)],
  )
  return Object.fromEntries(entries) as Value
}

function withMark(text: string, field = ''): string {
  if (isMarked(text)) return text
  return field.endsWith('email') ? `${CANARY}.${text || 'x@example.com'}` : `${CANARY} ${text}`
}

/** Marks all current records, and all later changes. */
export function plant({ control }: Emulator): void {
  const world = control.world()
  for (const table of tablesOf(world)) markAll(table)
  // A value of the wrong type is reported as a problem.
  for (let at = 0; at < world.patients.end; at += 3) {
    const { id } = world.patients.at(at)!
    control.updatePatient(id, { date_birth: `${CANARY} 1980` })
  }
  world.subscribe(({ source, type, id, row }) => {
    if (type === 'deleted' || source === 'packet_response') return
    if (JSON.stringify(marked(row)) === JSON.stringify(row)) return
    const table = { patient: 'patients', form: 'forms', packet: 'packets', document: 'documents' } as const
    const name = source === 'response' ? 'responses' : source === 'message' ? 'messages' : table[source]
    ;(world[name] as unknown as Table<Row>).update(id, (now) => marked(now))
  })
}

function tablesOf(world: World): readonly Table<Row>[] {
  const { patients, forms, packets, documents, responses, messages } = world
  return [patients, forms, packets, documents, responses, messages] as unknown as readonly Table<Row>[]
}

function markAll(table: Table<Row>): void {
  for (let at = 0; at < table.end; at++) {
    const row = table.at(at)
    if (row !== undefined) table.update(row.id, (now) => marked(now))
  }
}

/** Clients and staff at work: new people, answers, corrections, submitted packets, deletes. */
export function work(control: Control, times: number): void {
  const world = control.world()
  for (let at = 0; at < times; at++) {
    const patient = control.createPatient({ first_name: 'New', custom_fields: { plan: `${at}` } })
    control.updatePatient(world.patients.at(at)!.id, { city: `City ${at}` })
    const staff = control.staff()
    staff.send({ patient: patient.id, form: world.forms.at(at % world.forms.end)!.id })
    const open = world.responses.at(world.responses.indexAt(at))!
    if (!open.is_skipped) staff.answer(open.id)
    if (at % 4 === 3) control.deletePatient(patient.id)
  }
}
