import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { problemsOf } from '../../../support/openapi.ts'
import { type Caller, callerOf, type Loose } from '../../caller.ts'
import { askFor, exportNamed, readCsv, sheetOf } from './exporting.ts'

let emulator: Emulator
let caller: Caller
let intake: Loose

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 60, responses: 400, pageSize: 5 })
  caller = callerOf(emulator)
  intake = await exportNamed(caller, 'Intake')
})
afterAll(() => emulator.close())

const detail = (status: number, text: string) => ({ status, body: { detail: text } })
const REFUSED = detail(400, 'Validation error.')
const UNKNOWN = detail(404, 'Export not found.')

describe('the list of exports', () => {
  it('has one entry for each form, each with an id of its own, in pages', async () => {
    const forms = await caller.rows('/v2/forms')
    const entries = await caller.rows('/v2/export-csv')
    expect(entries.map(({ id: _id, ...rest }) => rest)).toEqual(
      forms.map(({ id, name, created_at }) => ({ name: `${name} export`, form: { id, name }, created_at })),
    )
    const ids = [...entries, ...forms].map(({ id }) => id)
    expect(new Set(ids).size).toBe(2 * forms.length)
    const { body } = await caller.get('/v2/export-csv?page=2')
    expect(body.results).toEqual(entries.slice(5, 10))
    expect([body.count, body.next !== null, body.previous !== null]).toEqual([forms.length, true, true])
  })

  it('has an entry for a form created at run time, with its current name, until it is deleted', async () => {
    const { control } = emulator
    const form = control.addForm({ name: 'New', questions: [{ type: 'short_text', text: 'Why?' }] })
    const { id } = await exportNamed(caller, 'New')
    control.renameForm(form.id, 'Renamed')
    expect(await exportNamed(caller, 'Renamed')).toMatchObject({ id, form: { id: form.id, name: 'Renamed' } })
    expect((await sheetOf(caller, 'Renamed')).titles.slice(7)).toEqual(['Why?'])
    control.deleteForm(form.id)
    await expect(exportNamed(caller, 'Renamed')).rejects.toThrow('0 exports')
    expect(await askFor(caller, id, 'v2.1')).toMatchObject(UNKNOWN)
  })
})

describe('a request for an export', () => {
  it.each([
    ['a type that there is not', '?type=xml', () => intake.id, REFUSED],
    ['an empty type', '?type=', () => intake.id, REFUSED],
    ['no id', '', () => undefined, REFUSED],
    ['an id that is no UUID', '', () => 'nonsense', REFUSED],
    ['an id that is no text', '', () => ({ id: intake.id }), REFUSED],
    ['an id that nobody has', '', () => '11111111-2222-4333-8444-555555555555', UNKNOWN],
    ['the id of a form', '', () => intake.form.id, UNKNOWN],
  ])('with %s is refused', async (_title, query, id, answer) => {
    const reply = await caller.send('POST', `/v2/export-csv${query}`, { id: id() })
    expect(reply).toMatchObject(answer)
    expect(problemsOf({ method: 'POST', url: '/v2/export-csv', ...reply })).toEqual([])
  })

  it.each(['', '{', '[]', 'null', '"x"'])('with the body %j is refused', async (body) => {
    expect(await caller.send('POST', '/v2/export-csv', body)).toMatchObject(REFUSED)
  })

  it('of another team is not found, nor one of the other environment', async () => {
    for (const [environment, team] of [
      [0, 1],
      [1, 0],
    ] as const) {
      expect(await askFor(callerOf(emulator, environment, team), intake.id, 'legacy')).toMatchObject(UNKNOWN)
    }
  })

  it.each(['PUT', 'PATCH', 'DELETE', 'HEAD'])('by %s is not allowed', async (method) => {
    const { status, headers } = await caller.send(method, '/v2/export-csv')
    expect([status, headers.get('allow')]).toEqual([405, 'GET, POST'])
  })

  it('needs credentials', async () => {
    expect(await caller.send('POST', '/v2/export-csv', { id: intake.id }, {})).toMatchObject(
      detail(401, 'No credentials provided.'),
    )
  })

  it('has the flat columns for version v2.1 only', async () => {
    const { id } = await exportNamed(caller, 'Medication list')
    const titlesIn = async (version: string) => {
      const headers = { ...caller.credentials, 'X-API-VERSION': version }
      const { text } = await caller.send('POST', '/v2/export-csv?type=raw_text', { id }, headers)
      return readCsv(text).titles.length
    }
    const legacy = (await sheetOf(caller, 'Medication list', 'legacy')).titles.length
    for (const version of ['v2', 'v2.0', 'v2.2', 'V2.1', '2.1', 'v2.10'])
      expect(await titlesIn(version)).toBe(legacy)
    expect(await titlesIn('v2.1')).toBeGreaterThan(legacy)
  })

  it('takes an id in capitals, and changes nothing', async () => {
    const before = emulator.control.world().responses.touched().size
    const [one, other] = [intake.id, intake.id.toUpperCase()]
    const first = await askFor(caller, one, 'v2.1', 'raw_text')
    expect((await askFor(caller, other, 'v2.1', 'raw_text')).text).toBe(first.text)
    expect(emulator.control.world().responses.touched().size).toBe(before)
  })
})

describe.each(['legacy', 'v2.1'] as const)('the formats of an export (%s)', (version) => {
  const ask = async (form: string, type?: string) =>
    askFor(caller, (await exportNamed(caller, form)).id, version, type)

  it('have the same content: the file is the raw text, JSON its rows by title, empty cells null', async () => {
    for (const form of ['Intake', 'Medication list', 'Pain diary — täglich']) {
      const raw = await ask(form, 'raw_text')
      const file = await ask(form, 'download_file')
      const json = await ask(form)
      expect(file.text).toBe(raw.text)
      expect((await ask(form, 'json')).text).toBe(json.text)
      const { titles, rows } = readCsv(raw.text)
      expect(rows.length).toBeGreaterThan(5)
      const objects = rows.map((row) => {
        const object = new Map<string, string | null>()
        for (const [at, title] of titles.entries()) object.set(title, row[at] || null)
        return Object.fromEntries(object)
      })
      expect(json.body).toEqual(objects)
      for (const reply of [raw, file, json]) {
        expect(problemsOf({ method: 'POST', url: '/v2/export-csv', ...reply })).toEqual([])
      }
    }
  })

  it('name their content type, and the name of the file', async () => {
    const types = ['raw_text', 'download_file', 'json']
    const replies = await Promise.all(types.map((type) => ask('Pain diary — täglich', type)))
    expect(replies.map(({ headers }) => headers.get('content-type'))).toEqual([
      'text/plain; charset=utf-8',
      'text/csv; charset=utf-8',
      'application/json',
    ])
    expect(replies.map(({ headers }) => headers.get('content-disposition'))).toEqual([
      null,
      `attachment; filename="Pain diary _ t_glich export.csv"; filename*=UTF-8''Pain%20diary%20%E2%80%94%20t%C3%A4glich%20export.csv`,
      null,
    ])
    for (const { headers } of replies) expect(headers.get('x-service-environment')).toBe('production')
  })

  it('end every line with CR LF and quote only where necessary, as Python does', async () => {
    const { control } = emulator
    const texts = ['a, b', 'say "x"', 'two\nlines', 'cr\rhere', ' blank ', 'semi; colon', '']
    const questions = texts.map((text) => ({ type: 'short_text' as const, text }))
    const form = control.addForm({ name: 'Quoting', questions })
    const { text } = await ask('Quoting', 'raw_text')
    expect(text).toBe(
      'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,' +
        '"a, b","say ""x""","two\nlines","cr\rhere", blank ,semi; colon,\r\n',
    )
    expect((await ask('Quoting')).body).toEqual([])
    control.deleteForm(form.id)
  })
})

describe('the name of a file', () => {
  it.each([
    ['../../etc/passwd', '_.._etc_passwd export.csv'],
    ['a\r\nSet-Cookie: x', 'a__Set-Cookie_ x export.csv'],
    ['"quoted" \\ %41', '_quoted_ _ %41 export.csv'],
    ['...', 'export.csv'],
    [`${'é'.repeat(99)}\ud83d\ude00`, `${'_'.repeat(99)}_.csv`],
  ])('is safe for a form named %j', async (name, expected) => {
    const { control } = emulator
    const form = control.addForm({ name })
    const { id } = await exportNamed(caller, name)
    const { status, headers } = await askFor(caller, id, 'legacy', 'download_file')
    control.deleteForm(form.id)
    expect(status).toBe(200)
    const [, file] = /^attachment; filename="((?:[^"\\]|\\.)*)"/.exec(
      headers.get('content-disposition') ?? '',
    ) ?? [null, /filename=([^;]*)/.exec(headers.get('content-disposition') ?? '')?.[1]]
    expect(file).toBe(expected)
    expect(headers.has('set-cookie')).toBe(false)
  })
})
