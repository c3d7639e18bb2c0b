/**
 * A text that nothing else contains, planted in everything that a record may contain, and the places where it must not be.
 *
 * Invariant: a record of `planted` has the canary in every text of its stream; only its id may be visible.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { STREAMS } from '../../../src/streams/catalogue.ts'
import { connect, query } from './scene.ts'

export const CANARY = 'Kanarienvogel7351'
export const SEEN = /Kanarienvogel/i

/** The bookkeeping tables, which analysts and operators may read without access to health data. */
export async function bookkeeping(url: string): Promise<string> {
  const tables = await query<{ name: string }>(
    url,
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'intake_ops' order by 1",
  )
  const texts: string[] = []
  for (const { name } of tables) {
    const rows = await query<{ row: string }>(url, `select to_jsonb(t)::text as row from ${name} t`)
    texts.push(...rows.map(({ row }) => `${name} ${row}`))
  }
  return texts.join('\n')
}

/** Number of rows of a schema that contain the canary, by table. */
export async function rowsWithCanary(url: string, schema: string): Promise<Readonly<Record<string, number>>> {
  const tables = await query<{ tablename: string }>(
    url,
    'select tablename from pg_tables where schemaname = $1 order by 1',
    [schema],
  )
  const found: Record<string, number> = {}
  for (const { tablename } of tables) {
    const [row] = await query<{ count: number }>(
      url,
      `select count(*)::int from ${schema}.${tablename} t where t::text ilike $1`,
      [`%${CANARY}%`],
    )
    found[tablename] = row!.count
  }
  return found
}

/** What another user of the server and machine can see while `work` runs: statements, names, command lines. */
export async function watched<T>(url: string, work: () => Promise<T>): Promise<{ result: T; seen: string }> {
  const client = await connect(url)
  const seen = new Set<string>()
  let isOver = false
  const watching = (async () => {
    while (!isOver) {
      const { rows } = await client.query<{ row: string }>(
        `select application_name || ' ' || query as row from pg_stat_activity where datname = current_database()`,
      )
      for (const { row } of rows) seen.add(row)
      for (const title of titles()) seen.add(title)
      await sleep(10)
    }
  })()
  try {
    return { result: await work(), seen: await settled() }
  } finally {
    isOver = true
    await watching
    await client.end()
  }

  async function settled(): Promise<string> {
    isOver = true
    await watching
    return [...seen].join('\n')
  }
}

/** The command lines of all visible processes. */
function titles(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        return [readFileSync(`/proc/${pid}/cmdline`, 'latin1')]
      } catch {
        return []
      }
    })
}

const at = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' }
const question = { id: 'q', text: CANARY }
const address = { address: CANARY, address2: CANARY, city: CANARY, state: CANARY, zipcode: CANARY }
const names = { first_name: CANARY, last_name: CANARY, phone_number: CANARY }

/** One record of each stream, with this `id`. */
export const planted = {
  patients: (id: string) => ({
    ...{ id, ...names, ...address, ...at },
    email: `${CANARY}@example.com`,
    external_id: CANARY,
    sex_at_birth: CANARY,
    provider: { id: 'x', name: CANARY },
    patient_tags: [{ name: CANARY, color: CANARY }],
    custom_fields: { plan: CANARY, [`${CANARY} of whom`]: CANARY },
    emergency_contact: { ...names, ...address, relationship: CANARY },
  }),
  forms: (id: string) => ({
    ...{ id, name: CANARY, text: CANARY, ...at },
    questions: [
      {
        ...{ ...question, help_text: CANARY, order: 1 },
        question_type: { question_type: CANARY, question_subtype: CANARY },
        choices: [{ id: 'c', text_value: CANARY }, CANARY],
      },
    ],
  }),
  packets: (id: string) => ({ id, name: CANARY, text: CANARY, forms: [{ id: 'f', name: CANARY }], ...at }),
  documents: (id: string) => ({
    ...{ id, name: CANARY, text: CANARY, ...at },
    input_fields: [{ id: 'i', name: CANARY, label: CANARY, field_type: CANARY }],
  }),
  responses: (id: string) => ({
    ...{ id, form: { id: 'f', name: CANARY }, form_name: CANARY, is_submitted: true, ...at },
    patient: { id: 'p', external_id: CANARY, ...names, email: `${CANARY}@example.com` },
    submitted_at: '2026-01-02T00:00:00Z',
    answers: [
      { id: 'a1', question, answer_text: CANARY, answer_choices: [] },
      { id: 'a2', question, answer_choices: [{ question_choice: { id: 'c', text_value: CANARY } }, CANARY] },
      { id: 'a3', question: null, answer_text: { said: CANARY } },
    ],
    matrix_cells: [
      {
        ...{ question, answer_text: CANARY },
        ...{ row: { id: 'r', text: CANARY }, column: { id: 'k', text: CANARY } },
      },
    ],
    files: [
      {
        ...{ id: 'x', question, name: `${CANARY}.png`, content_type: CANARY, size: 1 },
        url: `https://files.example.com/${CANARY}?signature=${CANARY}`,
      },
    ],
    e_signatures: [{ id: 's', question, signer_name: CANARY, image: `data:image/png;base64,${CANARY}` }],
  }),
  messages: (id: string) => ({
    ...{ id, patient: { id: 'p', ...names }, form: { id: 'f', name: CANARY }, ...at },
    message_type: CANARY,
    preferred_delivery_method: CANARY,
    target_email: `${CANARY}@example.com`,
    target_phone_number: CANARY,
    status: CANARY,
    content: CANARY,
  }),
  exports: (id: string) => ({ id, name: CANARY, form: { id: 'f', name: CANARY }, created_at: at.created_at }),
  webhookConfigs: (id: string) => ({
    ...{ id, is_active: true, created_at: at.created_at },
    target_url: `https://${CANARY}.example.com/${CANARY}?token=${CANARY}`,
    event_types: [CANARY],
    sources: [CANARY],
    signature_secret: CANARY,
  }),
  webhookDeliveries: (id: string) => ({
    ...{ id, event_id: 'e', webhook_config: 'w', event_type: CANARY, source: CANARY, status: CANARY },
    ...{ error: `${CANARY} timed out`, created_at: at.created_at },
  }),
} as const

export interface Planted {
  readonly stream: string
  /** Name of its list in a little service. */
  readonly list: string
  readonly record: (id: string) => { readonly id: string }
  readonly table: string
  /** A column of type text, for a stream that `planted` does not name. */
  readonly text: string | null
}

/** Every stream that has a list. One that `planted` does not name has the canary in each of its text columns. */
export const PLANTED: readonly Planted[] = STREAMS.map(({ name, list, table, columns }) => {
  const texts = columns.filter(({ type }) => type === 'text').map((column) => column.name)
  const own = (planted as Readonly<Record<string, Planted['record']>>)[list!.name]
  const all = (id: string) => ({ id, ...Object.fromEntries(texts.map((field) => [field, CANARY])), ...at })
  return {
    stream: name,
    list: list!.name,
    record: own ?? all,
    table,
    text: own === undefined ? texts[0]! : null,
  }
})

/** The same record with every field of a wrong type, and a text that no table can store. */
export function disfigured(record: { readonly id: string }): { id: string; [field: string]: unknown } {
  const other = Object.entries(record).map(([name, value]): [string, unknown] => {
    if (name === 'id') return [name, value]
    if (typeof value === 'string') return [name, { [CANARY]: [value, `${CANARY}\u0000\ud800`] }]
    return [name, Array.isArray(value) ? { deep: { [CANARY]: value } } : [CANARY, value]]
  })
  return { ...Object.fromEntries(other), id: record.id, unheard_of: { [CANARY]: CANARY } }
}

/** Files of an export: valid, odd and malformed. */
export const FILES: readonly string[] = [
  `Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,${CANARY},\np,${CANARY},${CANARY},${CANARY}@example.com,2026-01-01 00:00:00,,False,${CANARY},"${CANARY}\n${CANARY}"\n`,
  `${CANARY},b\n${CANARY},${CANARY},${CANARY},${CANARY},${CANARY},${CANARY},${CANARY},${CANARY}\u0000,${CANARY}\n`,
  `Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,q\np,${CANARY},"${CANARY}\n`,
  `<html>${CANARY}</html>`,
]
