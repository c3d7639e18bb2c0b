import { describe, expect, it } from 'vitest'
import { startEmulator } from '../../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose, type Reply } from '../../caller.ts'
import { askFor, exportNamed, readCsv, type Sheet } from './exporting.ts'

const SIZES = { port: 0, patients: 30, responses: 150, forms: 6 }
const FORM = 'Medication list'

interface Seen {
  readonly entry: Loose
  readonly raw: Reply
  readonly file: Reply
  readonly json: Reply
}

async function seen(shape: string): Promise<Seen> {
  await using emulator = await startEmulator({ ...SIZES, shape })
  const caller: Caller = callerOf(emulator)
  const entries: Loose[] = await caller.rows('/v2/export-csv')
  const entry = entries.find((one) => (one.form?.name ?? one.form_name) === FORM)
  const ask = (type: string) => askFor(caller, entry.id ?? entry.uid, 'v2.1', type)
  return { entry, raw: await ask('raw_text'), file: await ask('download_file'), json: await ask('json') }
}

const plain = await seen('default')
const sheet: Sheet = readCsv(plain.raw.text)

describe('the shape', () => {
  it('default has rows to compare with', () => {
    expect(sheet.rows.length).toBeGreaterThan(5)
    expect(plain.json.body).toHaveLength(sheet.rows.length)
  })

  it('export-form-id names the form of an export in two fields, and the export is the same', async () => {
    const { entry, raw } = await seen('export-form-id')
    const { form, ...rest } = plain.entry
    expect(entry).toEqual({ ...rest, form_id: form.id, form_name: form.name })
    expect(raw.text).toBe(plain.raw.text)
  })

  it('export-json-data has the same objects in `data`', async () => {
    const { json, raw } = await seen('export-json-data')
    expect(json.body).toEqual({ data: plain.json.body })
    expect(raw.text).toBe(plain.raw.text)
  })

  it('export-json-rows has titles and every cell by position', async () => {
    const { json } = await seen('export-json-rows')
    const rows = sheet.rows.map((row) => row.map((cell) => (cell === '' ? null : cell)))
    expect(json.body).toEqual({ headers: sheet.titles, rows })
    expect(json.headers.get('content-type')).toBe('application/json')
  })

  it('raw-text-csv names another content type for the same text', async () => {
    const { raw } = await seen('raw-text-csv')
    expect([raw.headers.get('content-type'), raw.text]).toEqual(['text/csv; charset=utf-8', plain.raw.text])
  })

  it('raw-text-quoted is the text as one JSON string; the file does not change', async () => {
    const { raw, file } = await seen('raw-text-quoted')
    expect([raw.headers.get('content-type'), raw.body]).toEqual(['application/json', plain.raw.text])
    expect(file.text).toBe(plain.raw.text)
  })

  it('raw-text-bom begins with a byte order mark, once', async () => {
    await using emulator = await startEmulator({ ...SIZES, shape: 'raw-text-bom' })
    const caller = callerOf(emulator)
    const { id } = await exportNamed(caller, FORM)
    for (const type of ['raw_text', 'download_file']) {
      const response = await fetch(`${caller.baseUrl}/v2/export-csv?type=${type}`, {
        method: 'POST',
        headers: { ...caller.credentials, 'X-API-VERSION': 'v2.1' },
        body: JSON.stringify({ id }),
      })
      const bytes = Buffer.from(await response.arrayBuffer())
      expect(bytes.equals(Buffer.from(`\ufeff${plain.raw.text}`))).toBe(true)
    }
    expect((await seen('raw-text-quoted+raw-text-bom')).raw.body).toBe(`\ufeff${plain.raw.text}`)
  })

  it.each([
    ['uid-ids', (id: string) => id],
    ['numeric-ids', (id: string) => String(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16))],
    ['huge-ids', (id: string) => String(BigInt(`0x1${id.replaceAll('-', '').slice(0, 15)}`))],
  ])('%s writes Client IDs as the ids of patients', async (shape, write) => {
    await using emulator = await startEmulator({ ...SIZES, shape })
    const caller = callerOf(emulator)
    const { text } = await caller.get('/v2/export-csv')
    const ids = [...text.matchAll(/"(?:id|uid)":"?([^,"]+)"?,"name":"Medication list export"/g)]
    const { text: csv, status } = await askFor(caller, ids[0]![1], 'v2.1', 'raw_text')
    expect(status).toBe(200)
    expect(readCsv(csv)).toEqual({
      titles: sheet.titles,
      rows: sheet.rows.map(([id, ...rest]) => [write(id!), ...rest]),
    })
    const people = (await caller.get('/v2/patients?page_size=1000')).text
    for (const [id] of readCsv(csv).rows) expect(people).toMatch(new RegExp(`"u?id":"?${id}"?,`))
  })

  it('numeric-ids answers 404 to an unknown number, and 400 to any other text', async () => {
    await using emulator = await startEmulator({ ...SIZES, shape: 'numeric-ids' })
    const caller = callerOf(emulator)
    const { id } = await exportNamed(caller, FORM)
    expect((await askFor(caller, id, 'legacy')).status).toBe(200)
    expect((await askFor(caller, 12345, 'legacy')).status).toBe(404)
    expect((await askFor(caller, plain.entry.id, 'legacy')).status).toBe(400)
  })

  it('empty-success does not change the answer of an export, which writes nothing', async () => {
    expect((await seen('empty-success')).raw.text).toBe(plain.raw.text)
  })
})
