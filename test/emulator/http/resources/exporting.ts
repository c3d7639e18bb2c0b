/** Asks the emulator for exports over real HTTP and reads them as strictly as CSV can be read. */
import { parse } from 'csv-parse/sync'
import type { Caller, Loose, Reply } from '../../caller.ts'

export type Version = 'legacy' | 'v2.1'

/** The entry of the list of exports for the form of this name. */
export async function exportNamed(caller: Caller, form: string): Promise<Loose> {
  const entries = await caller.rows('/v2/export-csv?page_size=1000')
  const found = entries.filter((one) => one.form.name === form)
  if (found.length !== 1) throw new Error(`${found.length} exports are of the form ${form}`)
  return found[0]
}

export function askFor(caller: Caller, id: unknown, version: Version, type?: string): Promise<Reply> {
  const headers = version === 'v2.1' ? { 'X-API-VERSION': version } : {}
  const query = type === undefined ? '' : `?type=${type}`
  return caller.send('POST', `/v2/export-csv${query}`, { id }, { ...caller.credentials, ...headers })
}

export interface Sheet {
  readonly titles: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** CSV whose every row has as many cells as there are titles; anything else throws. */
export function readCsv(text: string): Sheet {
  const [titles = [], ...rows] = parse(text, { record_delimiter: '\r\n' }) as string[][]
  return { titles, rows }
}

export async function sheetOf(caller: Caller, form: string, version: Version = 'v2.1'): Promise<Sheet> {
  const { id } = await exportNamed(caller, form)
  const reply = await askFor(caller, id, version, 'raw_text')
  if (reply.status !== 200) throw new Error(`the export answered ${reply.status}`)
  return readCsv(reply.text)
}
