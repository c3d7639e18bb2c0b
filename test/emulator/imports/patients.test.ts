import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { afterAll, describe, expect, it } from 'vitest'
import { NO_FIELDS } from '../../../src/emulator/http/resources/patient-body.ts'
import { readImports } from '../../../src/emulator/imports/read-imports.ts'
import { type EmulatorOptionError, startEmulator } from '../../../src/emulator/server.ts'
import { callerOf, type Loose } from '../caller.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../real-data.ts'

const folder = mkdtempSync(join(tmpdir(), 'emulator-import-'))
afterAll(() => rmSync(folder, { recursive: true }))

function written(name: string, content: string | Buffer): string {
  const file = join(folder, name)
  writeFileSync(file, content)
  return file
}

async function imported(importPatients: string): Promise<Loose[]> {
  await using emulator = await startEmulator({ port: 0, patients: 0, importPatients })
  return await callerOf(emulator).rows('/v2/patients?page_size=1000')
}

/** Every value a patient holds, custom fields included, birth dates as digits too. */
function valuesOf(patient: Loose): string[] {
  const { custom_fields, date_birth, ...fields } = patient
  const dates = date_birth === null ? [] : [date_birth, date_birth.replaceAll('-', '')]
  return [...Object.values(fields), ...dates, ...Object.values(custom_fields)].map(String)
}

/** The n-th served patient holds every value of the n-th row, each as often as the row does. */
function expectEveryValue(patients: Loose[], rows: readonly string[][]): void {
  expect(patients).toHaveLength(rows.length)
  rows.forEach((row, at) => {
    const left = valuesOf(patients[at])
    for (const value of row) {
      const place = left.indexOf(value)
      if (place < 0) expect.fail(`row ${at + 1} lost a value: ${JSON.stringify(value)}`)
      left.splice(place, 1)
    }
  })
}

describe.skipIf(realDataMissing)(`real lists of people${reasonWhenMissing}`, () => {
  it.each([
    'patients/febrl/dataset1.csv',
    'patients/febrl/dataset3.csv',
    'patients/synthea-ohdsi/patients.csv',
    'surveys/redcap/projects/clinical-trial-1/data.csv',
  ])('%s is served value for value', async (file) => {
    const text = readFileSync(realData(file), 'utf8')
    const [, ...rows] = parse(text, { trim: true, relax_column_count: true }) as string[][]
    expectEveryValue(await imported(realData(file)), rows)
  })

  it('patients/chinook/customers.json is served value for value', async () => {
    const file = realData('patients/chinook/customers.json')
    const people = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>[]
    const rows = people.map((one) =>
      Object.values(one)
        .filter((value) => value !== null)
        .map(String),
    )
    expectEveryValue(await imported(file), rows)
  })

  it('puts values into the fields that their headers mean', async () => {
    const [first] = await imported(realData('patients/febrl/dataset3.csv'))
    expect(first).toMatchObject({
      external_id: 'rec-1496-org',
      first_name: 'mitchell',
      last_name: 'green',
      address: 'wallaby place',
      address2: 'delmar',
      city: 'cleveland',
      zipcode: '2119',
      date_birth: '1956-04-09',
      custom_fields: { street_number: '7', soc_sec_id: '1804974' },
    })
  })
})

const MEANINGS: readonly (readonly [field: string, ...headers: string[]])[] = [
  ['external_id', 'External ID', 'rec_id', 'Record-Id', 'id', 'Customer Id', 'PATIENT_ID', 'clientId'],
  ['first_name', 'first_name', 'Given Name', 'name first', 'First', 'forename'],
  ['last_name', 'Last Name', 'surname', 'name_last', 'last', 'Family Name'],
  ['email', 'E-Mail', 'Email Address', 'mail'],
  ['phone_number', 'Phone Number', 'phone', 'telephone', 'Mobile'],
  ['sex_at_birth', 'Sex at birth', 'sex', 'Gender'],
  ['provider', 'Provider'],
  ['address', 'Address', 'address_1', 'Street Address'],
  ['address2', 'address_2'],
  ['city', 'City', 'suburb', 'Town'],
  ['state', 'State'],
  ['zipcode', 'zipcode', 'ZIP', 'Post code', 'Postal Code'],
  ['date_birth', 'date_birth', 'Date of Birth', 'birth date', 'DOB'],
]

it.each(MEANINGS)(
  'a header that means %s is read as that: %s, %s, %s, %s, %s, %s, %s',
  async (field, ...headers) => {
    for (const header of headers) {
      const value = field === 'date_birth' ? '1999-12-31' : 'x'
      const importPatients = written('header.csv', `${header},other\n${value},y\n`)
      const files = { importPatients, importQuestionnaires: undefined, importSurvey: [] }
      const { imported, report } = await readImports(files)
      expect(imported.patients).toEqual([{ ...NO_FIELDS, [field]: value, custom_fields: { other: 'y' } }])
      expect(report).toEqual({ patients: 1, forms: 0, questions: 0, responses: 0, skipped: [], failed: [] })
    }
  },
)

describe('an imported list', () => {
  it('keeps an impossible date, a repeated header, a spare cell and a lost header as custom fields', async () => {
    const [one] = await imported(
      written('odd.csv', 'first_name,Last Name,dob,note,note,phone,mobile\r\nA,B,20010229,x,y,1,2,spare\r\n'),
    )
    expect(one).toMatchObject({ first_name: 'A', last_name: 'B', date_birth: null, phone_number: '1' })
    expect(one.custom_fields).toEqual({
      dob: '20010229',
      note: 'x',
      'note (2)': 'y',
      mobile: '2',
      'column 8': 'spare',
    })
  })

  it('is read with a byte order mark, and as Windows-1252 where it is not UTF-8', async () => {
    const marked = written('bom.csv', '\ufefffirst_name,last_name\nZoë,"O, Neil"\n')
    expect(await imported(marked)).toMatchObject([
      { first_name: 'Zoë', last_name: 'O, Neil', custom_fields: {} },
    ])
    const latin = written('latin.csv', Buffer.from('first_name,last_name\nJos\xe9,\x80\n', 'latin1'))
    expect(await imported(latin)).toMatchObject([{ first_name: 'José', last_name: '€' }])
  })

  it('keeps spaces in values unless every comma of the header is followed by one', async () => {
    expect(await imported(written('a.csv', 'first, last\nA, B\n'))).toMatchObject([{ last_name: 'B' }])
    expect(await imported(written('b.csv', 'first,last,note\nA, B, c\n'))).toMatchObject([
      { last_name: ' B', custom_fields: { note: ' c' } },
    ])
  })

  it('can be JSON; values other than text are kept as JSON writes them', async () => {
    const file = written(
      'x.json',
      JSON.stringify([{ FirstName: 'A', Id: 7, tags: ['x', 1], gone: null, ok: true }]),
    )
    expect(await imported(file)).toMatchObject([
      { external_id: '7', custom_fields: { tags: '["x",1]', ok: 'true' } },
    ])
  })

  it('precedes the generated people, in the first team of production only', async () => {
    const importPatients = written('p.csv', 'first,last\nOnly,One\n')
    await using emulator = await startEmulator({ port: 0, patients: 5, importPatients })
    const rows = await callerOf(emulator).rows('/v2/patients')
    expect(rows).toHaveLength(6)
    expect(rows[0]).toMatchObject({ first_name: 'Only' })
    expect((await callerOf(emulator).get(`/v2/patients/${rows[0].id}`)).body).toEqual(rows[0])
    expect(await callerOf(emulator, 0, 1).rows('/v2/patients')).toHaveLength(5)
    expect(emulator.imported.patients).toBe(1)
  })

  it.each([
    ['that is not there', join(folder, 'none.csv')],
    ['that is empty', written('empty.csv', '')],
    ['that is no list', written('object.json', '{"a":1}')],
    ['that has an item that is none', written('items.json', '[{"first":"A"},["B"]]')],
    ['that has nothing among its items', written('null.json', '[null]')],
    ['that is not closed', written('open.csv', 'a,b\n"x')],
  ])('%s is refused, and the option is named', async (_title, importPatients) => {
    const error = await startEmulator({ port: 0, importPatients }).catch((thrown: unknown) => thrown)
    expect((error as EmulatorOptionError).option).toBe('import-patients')
  })
})

it.each([
  ['patients.csv', 'first_name,last_name\nAnn,Canary "Smith" x\n'],
  ['patients.json', '[{"first_name": "Canary" "Smith"}]'],
])('a malformed %s is refused without a byte of it', async (name, text) => {
  const folder = mkdtempSync(join(tmpdir(), 'intake-sync-malformed-'))
  const file = join(folder, name)
  writeFileSync(file, text)
  const error: Error = await startEmulator({ port: 0, importPatients: file }).then(
    () => new Error('it started'),
    (reason) => reason,
  )
  rmSync(folder, { recursive: true })
  expect(error.message).toMatch(/^--import-patients: .* cannot be read: is not valid (CSV|JSON)/)
  expect(error.message).not.toMatch(/Canary|Smith/)
})
