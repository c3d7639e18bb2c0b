/**
 * The expected content of the warehouse for a service's world, computed from the world alone, without the declarations of
 * `src/streams`, so that a wrong mapping there is contradicted here.
 */
import { DECLARED } from '../../../src/emulator/world/declared-catalogue.ts'
import type { Response } from '../../../src/emulator/world/records.ts'
import type { World } from '../../../src/emulator/world/world.ts'

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
      const { text, help_text, order: sort_order, link_id = null, page, block: block_id = null } = question
      const place = { form_id: id, position: at + 1, question_id: question.id }
      put('form_questions', {
        ...{ ...place, ...question.question_type, text, help_text, sort_order },
        ...{ link_id, page, block_id },
      })
      question.choices.forEach((choice, of) => {
        const where = { form_id: id, question_position: at + 1, position: of + 1, question_id: question.id }
        const { id: choice_id, text_value, code = null, points = null } = choice
        put('question_choices', { ...where, choice_id, text: text_value, code, points })
      })
    })
  }
  for (const { id, forms, ...fields } of rowsOf(world.packets)) {
    put('packets', { id, ...stamped(fields) })
    // A deleted form is in no packet.
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
  const known = <T>(table: { get(id: string): T | undefined }, id: string | null) =>
    id !== null && table.get(id) !== undefined ? id : null
  for (const { patient, form, packet, document, ...fields } of rowsOf(world.messages)) {
    put('messages', {
      ...stamped(fields),
      scheduled_at: timeOf(fields.scheduled_at),
      sent_at: timeOf(fields.sent_at),
      patient_id: known(world.patients, patient),
      form_id: known(world.forms, form),
      packet_id: known(world.packets, packet),
      document_id: known(world.documents, document),
    })
  }
  for (const response of rowsOf(world.responses)) putResponse(world, response, put)
  for (const { resource, source } of DECLARED) {
    for (const record of rowsOf(world.declared(source))) put(resource, flat(record))
  }
  return Object.fromEntries(Object.entries(tables).map(([name, rows]) => [name, lines(rows)]))
}

/** A record of a declared resource: references by id, times as Postgres writes them. */
function flat(record: Row): Row {
  return Object.fromEntries(
    Object.entries(record).map(([name, value]) => {
      if (typeof value === 'object' && value !== null) return [`${name}_id`, (value as Row).id]
      return [name, name.endsWith('_at') ? timeOf(value as string | null) : value]
    }),
  )
}

function putResponse(world: World, response: Response, put: (table: string, row: Row) => void): void {
  const { id, patient, form, packet, document, is_submitted, is_skipped, is_archived } = response
  const { created_at, updated_at } = stamped(response) as Record<string, string>
  put('responses', {
    ...{ id, is_submitted, is_skipped, is_archived, created_at, updated_at },
    patient_id: world.patients.get(patient) === undefined ? null : patient,
    form_id: form,
    form_name: response.form_name,
    packet_id: packet !== null && world.packets.get(packet) !== undefined ? packet : null,
    document_id: document !== null && world.documents.get(document) !== undefined ? document : null,
    submitted_at: timeOf(response.submitted_at),
  })
  response.answers.forEach(({ id: answer_id, question, answer_text, answer_choices }, at) => {
    const chosen = (answer_choices ?? []).map(({ question_choice: { id: choice_id, text_value } }) => ({
      choice_id,
      value_text: text_value as string | null,
    }))
    const texts = answer_text === null ? [] : [{ choice_id: null, value_text: answer_text }]
    const values = [...chosen, ...texts]
    const given = values.length === 0 ? [{ choice_id: null, value_text: null }] : values
    given.forEach((value, of) => {
      put('response_answers', {
        response_id: id,
        position: at + 1,
        value_position: of + 1,
        answer_id,
        question_id: question?.id ?? null,
        question_text: question?.text ?? null,
        ...value,
        ...typed(value.value_text),
      })
    })
  })
  response.matrix_cells.forEach(({ question, row, column, answer_text }, at) => {
    put('response_matrix_cells', {
      ...{ response_id: id, position: at + 1, question_id: question.id, value_text: answer_text },
      ...{ row_id: row.id, row_text: row.text, column_id: column.id, column_text: column.text },
      question_text:
        response.answers.find((answer) => answer.question?.id === question.id)?.question?.text ?? null,
    })
  })
  response.files.forEach(({ id: file_id, question, name, content_type, size }, at) => {
    const place = { response_id: id, position: at + 1, file_id, question_id: question.id }
    const url = `https://files.example.com/uploads/${file_id}`
    put('response_files', { ...place, name, content_type, size_bytes: size, url })
  })
  response.e_signatures.forEach(({ id: signature_id, question, signed_at, signer_name }, at) => {
    const place = { response_id: id, position: at + 1, signature_id, question_id: question.id }
    put('response_signatures', { ...place, signer_name, signed_at: timeOf(signed_at), has_image: true })
  })
}

/** Only fields that the emulator returns for each kind; the tests of the declarations cover more. */
function typed(text: string | null): Row {
  const isNumber = text !== null && /^-?\d+(\.\d+)?$/.test(text)
  const boolean = /^(true|yes)$/i.test(text ?? '') ? true : /^(false|no)$/i.test(text ?? '') ? false : null
  const isDay = text !== null && /^\d{4}-\d{2}-\d{2}$/.test(text) && text !== '2024-02-30'
  return {
    value_number: isNumber ? Number(text) : null,
    value_boolean: boolean,
    value_date: isDay ? text : null,
  }
}

type Ask = <Row extends object>(url: string, text: string, values?: unknown[]) => Promise<Row[]>

/**
 * The same tables as stored in the warehouse, of its only team or of the given one, without tombstones. Outside of tests
 * with a query function of the caller.
 */
export async function storedTables(url: string, team?: string, ask?: Ask): Promise<Tables> {
  const query = ask ?? (await import('./scene.ts')).query
  const names = await query<{ name: string; root: boolean }>(
    url,
    // The tests of exports compute their content from the files.
    `select table_name as name, bool_or(column_name = '_deleted_at') as root from information_schema.columns
     where table_schema = 'intake' and table_name in (select tablename from pg_tables) and table_name <> 'teams' and table_name not like 'export%' group by 1`,
  )
  const text = names.map(({ name, root }) => {
    const live = root ? 'and _deleted_at is null' : ''
    return `select '${name}' as name, to_jsonb(t) as row from intake.${name} t, own where t.team_id = own.id ${live}`
  })
  const own =
    'with own as materialized (select team_id as id from intake.teams where name = coalesce($1, name))'
  const tables = new Map<string, Row[]>()
  const rows = await query<{ name: string; row: Row }>(url, `${own} ${text.join(' union all ')}`, [
    team ?? null,
  ])
  for (const { name, row } of rows) {
    const fields = Object.entries(row).filter(([column]) => column !== 'team_id' && !column.startsWith('_'))
    const plain = Object.fromEntries(fields)
    if (tables.has(name)) tables.get(name)!.push(plain)
    else tables.set(name, [plain])
  }
  return Object.fromEntries([...tables].map(([name, rows]) => [name, lines(rows)]))
}

function lines(rows: readonly Row[]): readonly string[] {
  return rows.map((row) => JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)))).sort()
}

/** Times as Postgres writes them into JSON: without trailing zeros in the fraction. */
function stamped(fields: { readonly created_at: string; readonly updated_at: string }): Row {
  return { ...fields, created_at: timeOf(fields.created_at), updated_at: timeOf(fields.updated_at) }
}

function timeOf(stamp: string | null): string | null {
  return stamp === null ? null : `${stamp.replace(/(?:\.0+|(\.\d*?)0+)?Z$/, '$1')}+00:00`
}

function rowsOf<T>(table: { readonly end: number; at(index: number): T | undefined }): readonly T[] {
  return Array.from({ length: table.end }, (_, index) => table.at(index)).filter((row) => row !== undefined)
}
