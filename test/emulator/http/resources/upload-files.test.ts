import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readUpload } from '../../../../src/emulator/http/resources/upload-file.ts'
import type { Loose } from '../../caller.ts'
import { csv, formOf, lines, startUploading, type Uploading } from './uploading.ts'

let service: Uploading
beforeEach(async () => {
  service = await startUploading()
})
afterEach(() => service[Symbol.asyncDispose]())

const GOOD = { first_name: 'A', last_name: 'B' }

describe('a bad row', () => {
  it.each([
    ['no first name', { first_name: '' }, /^first_name: This field is required\.$/],
    ['a last name of blanks', { last_name: '  ' }, /^last_name: This field may not be blank\.$/],
    ['a bad e-mail', { email: 'no body@' }, /^email: Enter a valid email address\.$/],
    ['a day that does not exist', { date_birth: '2001-02-29' }, /^date_birth: Enter a date .*YYYY-MM-DD\.$/],
    [
      'a tag without a colour',
      { patient_tags: 'VIP' },
      /^patient_tags: Enter each tag as its name and a color/,
    ],
    [
      'a contact of no first name',
      { emergency_last_name: 'C' },
      /^emergency_first_name: This field is required/,
    ],
    [
      'a contact of no last name',
      { emergency_first_name: 'C' },
      /^emergency_last_name: This field is required/,
    ],
    [
      'a contact of blank names',
      { emergency_first_name: ' ', emergency_last_name: 'D' },
      /^emergency_first_name:/,
    ],
    ['a cell in a column without a name', { '': 'x' }, /^non_field_errors: Column 3 has no name\.$/],
  ])(
    'with %s is reported with its number and column, and does not affect the valid ones',
    async (_title, cells, detail) => {
      expect(await service.uploaded(csv(GOOD, GOOD, { ...GOOD, ...cells }, GOOD))).toMatchObject({
        ...{ status: 'completed', total_rows: 4, processed_rows: 4, success_count: 3, error_count: 1 },
        errors: [{ row: 3, detail: expect.stringMatching(detail) }],
      })
      expect(await service.created()).toHaveLength(3)
    },
  )

  it('with more cells than columns is refused unless they are empty; missing cells are empty', async () => {
    const { errors } = await service.uploaded('first_name,last_name,city\nA,B,,,\nA,B\nA,B,C,D\n')
    expect(errors).toEqual([{ row: 3, detail: 'non_field_errors: Column 4 has no name.' }])
  })

  it('can have bytes that are not UTF-8, and the text of others is not changed', async () => {
    const file = Buffer.concat([
      Buffer.from('first_name,last_name\nJosé,王\nJos'),
      Buffer.from([0xe9, 0x2c, 0x42]),
    ])
    const { errors } = await service.uploaded(new Uint8Array(file))
    expect(errors).toEqual([{ row: 2, detail: 'first_name: Enter text in UTF-8.' }])
    expect(await service.created()).toMatchObject([{ first_name: 'José', last_name: '王' }])
  })

  it('is none for the sign of unreadable bytes, where the file is UTF-8', async () => {
    const { success_count, errors } = await service.uploaded(
      'first_name,last_name,no\ufffdte\nA\ufffd,B,\ufffd\n',
    )
    expect([success_count, errors]).toEqual([1, []])
    expect(await service.created()).toMatchObject([
      { first_name: 'A\ufffd', custom_fields: { 'no\ufffdte': '\ufffd' } },
    ])
  })

  it('is reported among 10,000, without its values', async () => {
    const rows = Array.from({ length: 10_000 }, (_, at) => ({ ...GOOD, email: at % 2 === 0 ? 'secret' : '' }))
    const { errors, error_count } = await service.uploaded(csv(...rows))
    expect(error_count).toBe(5_000)
    expect(errors.map((one: Loose) => one.row)).toEqual(Array.from({ length: 5_000 }, (_, at) => 2 * at + 1))
    expect(JSON.stringify(errors)).not.toContain('secret')
  })

  it.each([
    { first_name: ' Ann ' },
    { email: 'a@b' },
    { email: 'a@b.de' },
    { email: 'ä@b.de' },
    { date_birth: '1900-02-29' },
    { date_birth: '2000-02-29' },
    { date_birth: '2000-2-9' },
    { phone_number: '+49 (0) 7' },
    { zipcode: '00501', state: 'any', sex_at_birth: 'any', external_id: '0', provider: ' ' },
  ])('is one that POST /v2/patients refuses, and no other: %j', async (cells) => {
    const person = { ...GOOD, ...cells }
    const single = await service.caller.send('POST', '/v2/patients', person)
    const { success_count } = await service.uploaded(csv(person))
    expect(success_count).toBe(single.status === 201 ? 1 : 0)
    const [first, second] = await service.created()
    expect(second).toEqual(single.status === 201 ? first : undefined)
  })
})

describe('a file', () => {
  it.each(['patients.CSV', 'a.b.Csv', 'Pätienten "neu".csv'])('may be named %s', async (name) => {
    expect((await service.post(formOf(lines(1), name))).status).toBe(202)
  })

  it.each(['patients.xlsx', 'patients.csv.zip', 'csv', 'patients'])('may not be named %s', async (name) => {
    const { status, body } = await service.post(formOf(lines(1), name))
    expect({ status, body }).toEqual({
      status: 400,
      body: { detail: 'Invalid file type. Only CSV files are allowed.' },
    })
  })

  const two = formOf(lines(1))
  two.append('file', new Blob([lines(1)]), 'b.csv')
  const text = new FormData()
  text.append('file', lines(1))
  const part = 'content-disposition: form-data; name="file"; filename="a.csv"'
  const cut = `--x\r\n${part}\r\n\r\n${lines(3)}`
  it.each<[string, FormData | string, string?]>([
    ['is JSON', '{}', 'application/json'],
    ['is the bare file', lines(1), 'text/csv'],
    ['is empty', '', 'multipart/form-data; boundary=x'],
    ['names no boundary', `${cut}\r\n--x--\r\n`, 'multipart/form-data'],
    ['names another boundary', `${cut}\r\n--x--\r\n`, 'multipart/form-data; boundary=y'],
    ['ends in the middle', cut, 'multipart/form-data; boundary=x'],
    ['has no part', new FormData()],
    ['has a part of another name', formOf(lines(1), 'a.csv', 'files')],
    ['has two parts named file', two],
    ['has a text named file', text],
    ['has a file without a name', formOf(lines(1), '')],
  ])('is refused when the body %s', async (_title, body, type) => {
    const reply = await service.post(body, type)
    expect({ status: reply.status, body: reply.body }).toEqual({
      status: 400,
      body: { detail: 'Validation error.' },
    })
  })

  it.each([
    ['that is empty', ''],
    ['of blank lines', '\ufeff\r\n\r\n'],
    ['without a last_name column', 'first_name,surname\nA,B\n'],
    ['without a header', 'A,B\nC,D\n'],
    ['with a column twice', 'first_name,last_name,note,Note \nA,B,1,2\n'],
    ['whose quote has no end', 'first_name,last_name\nA,B\n"A,B\n'],
    ['that goes on after a quote', 'first_name,last_name\nA,"B"C\n'],
    ['in UTF-16', new Uint8Array(Buffer.from(`\ufeff${lines(2)}`, 'utf16le'))],
  ])('%s is refused and creates no patient', async (_title, content) => {
    const { status, body } = await service.post(formOf(content))
    expect({ status, body }).toEqual({ status: 400, body: { detail: 'Validation error.' } })
    service.emulator.control.advance(3_600_000)
    expect(await service.created()).toEqual([])
  })

  it('may have 250,000 rows below its header, and no more', async () => {
    const read = async (rows: number) => {
      const form = new Response(formOf(`first_name,last_name\n${'a,b\n'.repeat(rows)}`))
      const body = Buffer.from(await form.arrayBuffer())
      const sheet = await readUpload(form.headers.get('content-type'), body)
      return sheet.type === 'sheet' ? sheet.rows.length : sheet.type
    }
    expect([await read(250_000), await read(250_001)]).toEqual([250_000, 'invalid'])
  })

  it('of 2 MB does not block other requests while it is read', async () => {
    const form = new Response(formOf(lines(200_000)))
    const body = Buffer.from(await form.arrayBuffer())
    let turns = 0
    let counting = setImmediate(() => {})
    const count = () => {
      turns += 1
      counting = setImmediate(count)
    }
    count()
    const sheet = await readUpload(form.headers.get('content-type'), body)
    clearImmediate(counting)
    expect(sheet).toMatchObject({ type: 'sheet', rows: { length: 200_000 } })
    expect(turns).toBeGreaterThan(body.length / 64 / 1024 - 1)
  })
})
