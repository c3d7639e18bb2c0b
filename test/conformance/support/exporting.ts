/**
 * Exports as a table of texts.
 *
 * Invariant: cells are read by position, so that columns with the same title are not confused.
 */
import { parse } from 'csv-parse/sync'
import type { Loose, Reply, ServiceUnderTest } from '../../support/service-under-test.ts'
import { expectDone, idOf, referenceOf, some, walk } from './reading.ts'
import type { Skip } from './rule.ts'

export const LEADING = [
  'Client ID',
  'First Name',
  'Last Name',
  'Email',
  'Sent at',
  'Completed at',
  'Archived',
]

export const typeOf = (question: Loose): string => question.question_type.question_type

/** Questions of a form that have columns. */
export const asking = (form: Loose): Loose[] =>
  form.questions.filter((one: Loose) => !['display_only', 'repeated_block'].includes(typeOf(one)))

export function run(service: ServiceUnderTest, id: string, query = '', version?: string): Promise<Reply> {
  const headers = version === undefined ? {} : { 'X-API-VERSION': version }
  return service.call('POST', `/v2/export-csv${query}`, { body: { id }, headers })
}

/** CSV text of an answer, which may be a JSON string and begin with a byte order mark. */
const textOf = ({ text, body }: Reply): string =>
  (typeof body === 'string' ? body : text).replace(/^\uFEFF/, '')

export interface Table {
  readonly titles: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export function tableOf(service: ServiceUnderTest, reply: Reply): Table {
  expectDone(service, reply, 200)
  const [titles = [], ...rows] = parse(textOf(reply), { relax_column_count: true, skip_empty_lines: true })
  return { titles, rows }
}

/** Ids of the team's exports; at most a few of a real service. */
export async function exportIds(service: ServiceUnderTest, skip: Skip): Promise<string[]> {
  const all = (await some(service, '/v2/export-csv', skip)).map(idOf)
  return service.isEmulator ? all : all.slice(0, 3)
}

export async function exportOfForm(
  service: ServiceUnderTest,
  form: string,
  version?: string,
): Promise<Table> {
  const { rows } = await walk(service, '/v2/export-csv')
  const entry = rows.find((one) => referenceOf(one, 'form') === form)
  return tableOf(service, await run(service, idOf(entry), '?type=raw_text', version))
}

/** The cells of a client under a title. */
export function cells({ titles, rows }: Table, client: string, title: string): string[] {
  const row = rows.find((one) => one[0] === client)
  return titles.flatMap((one, at) =>
    one === title && at >= LEADING.length ? [row?.[at] ?? 'no such row'] : [],
  )
}
