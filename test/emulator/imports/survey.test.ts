import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, type EmulatorOptionError, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'
import { sheetOf } from '../http/resources/exporting.ts'

const folder = mkdtempSync(join(tmpdir(), 'emulator-survey-'))
afterAll(() => rmSync(folder, { recursive: true }))

function written(content: string | Buffer, name = 'Survey.csv'): string {
  const file = join(folder, name)
  writeFileSync(file, content)
  return file
}

/** What the export of a survey shows of it: titles and cells, without what stands before them. */
async function exported(caller: Caller, form: string) {
  const { titles, rows } = await sheetOf(caller, form)
  return { titles: titles.slice(7), rows: rows.map((row) => row.slice(7)) }
}

const SURVEYS: readonly (readonly [string, string | Buffer, string[], string[][]])[] = [
  ['titles that repeat', 'a,a,A\n1,2,3\n', ['a', 'a', 'A'], [['1', '2', '3']]],
  ['titles that are empty', ',x,\n1,2,3\n', ['', 'x', ''], [['1', '2', '3']]],
  ['titles of the export’s own', 'First Name,Client ID\nA,7\n', ['First Name', 'Client ID'], [['A', '7']]],
  [
    'titles alike for the first 63 bytes',
    `${'x'.repeat(70)}1,${'x'.repeat(70)}2\na,b\n`,
    [`${'x'.repeat(70)}1`, `${'x'.repeat(70)}2`],
    [['a', 'b']],
  ],
  [
    'titles and cells of several lines',
    '"a\nb","c\r\nd","e\rf"\n"1\n\n2","\r\n","\n"\n',
    ['a\nb', 'c\r\nd', 'e\rf'],
    [['1\n\n2', '\r\n', '\n']],
  ],
  [
    'names that an object has',
    '__proto__,constructor,1\na,b,c\n',
    ['__proto__', 'constructor', '1'],
    [['a', 'b', 'c']],
  ],
  ['a byte order mark before a quoted title', '\ufeff"a, b",c\n1,2\n', ['a, b', 'c'], [['1', '2']]],
  [
    'byte order marks inside cells',
    'a,\ufeffb\n\ufeff1,x\ufeff\n',
    ['a', '\ufeffb'],
    [['\ufeff1', 'x\ufeff']],
  ],
  ['no-break spaces and blanks', 'a\u00a0,b \n\u00a0,   \n', ['a\u00a0', 'b '], [['\u00a0', '   ']]],
  [
    'lines that end with CR CR LF',
    'a,b\r\r\n1,2\r\r\n3,4\r\r\n',
    ['a', 'b'],
    [
      ['1', '2'],
      ['3', '4'],
    ],
  ],
  [
    'lines that end with CR',
    'a,b\r1,2\r3,4',
    ['a', 'b'],
    [
      ['1', '2'],
      ['3', '4'],
    ],
  ],
  ['quotes where none should be', 'a,b\n5" nail,x"y"z\n', ['a', 'b'], [['5" nail', 'x"y"z']]],
  [
    'rows too long and too short',
    'a,b\n1,2,3,4\n5\n',
    ['a', 'b', '', ''],
    [
      ['1', '2', '3', '4'],
      ['5', '', '', ''],
    ],
  ],
  [
    'a row without an answer',
    'a,b\n,\n1,2\n',
    ['a', 'b'],
    [
      ['', ''],
      ['1', '2'],
    ],
  ],
  [
    'lines without anything between the rows',
    'a,b\n\n1,2\n\n\n3,4\n\n',
    ['a', 'b'],
    [
      ['1', '2'],
      ['3', '4'],
    ],
  ],
  ['a line of titles alone', 'a,b', ['a', 'b'], []],
  [
    'one column',
    'Do you like it; and why?\nyes\nno; not at all\n',
    ['Do you like it; and why?'],
    [['yes'], ['no; not at all']],
  ],
  ['semicolons between', 'a;"b;c";d, e\n1;2,5;3\n', ['a', 'b;c', 'd, e'], [['1', '2,5', '3']]],
  ['semicolons in titles, commas between', 'a; b; c?,d\n1,2\n', ['a; b; c?', 'd'], [['1', '2']]],
  [
    'semicolons between, and no two rows as long',
    'a;b;c\n1;2\n3;4;5;6\n',
    ['a', 'b', 'c', ''],
    [
      ['1', '2', '', ''],
      ['3', '4', '5', '6'],
    ],
  ],
  ['tabs between', 'a\tb, c\td\n1\t"2\t"\t\n', ['a', 'b, c', 'd'], [['1', '2\t', '']]],
  [
    'bytes that are not UTF-8',
    Buffer.from('Gr\xf6\xdfe,\x80?\nna\xefve \x93x\x94,\x85\n', 'latin1'),
    ['Größe', '€?'],
    [['naïve “x”', '…']],
  ],
]

describe('surveys that are imported together', () => {
  let emulator: Emulator

  beforeAll(async () => {
    const importSurvey = SURVEYS.map(([name, content]) => written(content, `${name}.csv`))
    emulator = await startEmulator({ port: 0, patients: 3, responses: 0, importSurvey })
  })
  afterAll(() => emulator.close())

  it.each(SURVEYS)('with %s are exported as they were imported', async (name, _content, titles, rows) => {
    expect(await exported(callerOf(emulator), name)).toEqual({ titles, rows })
  })

  it('have a form each, and a client for each row, who gave its answers and no others', async () => {
    const caller = callerOf(emulator)
    const total = SURVEYS.reduce((sum, [, , , rows]) => sum + rows.length, 0)
    const questions = SURVEYS.reduce((sum, [, , titles]) => sum + titles.length, 0)
    const forms = SURVEYS.length
    expect(emulator.imported).toMatchObject({ patients: total, forms, questions, responses: total })
    const people = await caller.rows('/v2/patients?page_size=1000')
    const responses = await caller.rows('/v2/responses?page_size=1000')
    const answered = responses.slice(0, total).map(({ patient }) => patient.id)
    expect(answered).toEqual(people.slice(0, total).map(({ id }) => id))
  })
})

describe('an imported survey', () => {
  it('has a client for each row, with only a name and the number of the row', async () => {
    const importSurvey = written('a\n1\n2\n', 'Small survey.csv')
    await using emulator = await startEmulator({ port: 0, patients: 2, responses: 20, importSurvey })
    const caller = callerOf(emulator)
    const people = await caller.rows('/v2/patients')
    expect(people).toHaveLength(4)
    expect(people.map((one) => one.external_id).slice(0, 2)).toEqual(['row 1', 'row 2'])
    const nothing = {
      email: null,
      phone_number: null,
      date_birth: null,
      address: '',
      emergency_contact: null,
    }
    for (const one of people.slice(0, 2)) {
      expect(one).toMatchObject({ ...nothing, patient_tags: [], custom_fields: {} })
      expect(one.first_name).not.toBe('')
      expect(one.last_name).not.toBe('')
    }
    const { rows } = await sheetOf(caller, 'Small survey')
    expect(rows.map(([id, first, last, email, , , archived]) => [id, first, last, email, archived])).toEqual(
      people.slice(0, 2).map((one) => [one.id, one.first_name, one.last_name, '', 'False']),
    )
  })

  it('is the same each time, and has no invented answers', async () => {
    const importSurvey = written('a\n1\n2\n')
    const options = { port: 0, patients: 1, forms: 0, responses: 20, importSurvey }
    await using one = await startEmulator(options)
    await using other = await startEmulator(options)
    const sheet = await sheetOf(callerOf(one), 'Survey')
    expect(sheet.rows).toHaveLength(2)
    expect(await sheetOf(callerOf(other), 'Survey')).toEqual(sheet)
  })

  it('is imported with other people and forms, before the generated records', async () => {
    const importPatients = written('first,last\nOnly,One\n', 'people.csv')
    const importSurvey = written('a,b\n1,2\n,4\n')
    written(
      JSON.stringify({
        resourceType: 'Questionnaire',
        title: 'Asked',
        item: [{ linkId: '1', type: 'string' }],
      }),
      'q.json',
    )
    await using emulator = await startEmulator({
      ...{ port: 0, patients: 5, forms: 2, responses: 100 },
      ...{ importPatients, importSurvey, importQuestionnaires: folder },
    })
    const caller = callerOf(emulator)
    const forms = await caller.rows('/v2/forms')
    expect(forms.map((form) => form.name)).toEqual(['Survey', 'Asked', 'Intake', 'Medication list'])
    const people = await caller.rows('/v2/patients')
    expect(people.map((one) => one.external_id).slice(0, 3)).toEqual([null, 'row 1', 'row 2'])
    expect(await exported(caller, 'Survey')).toEqual({
      titles: ['a', 'b'],
      rows: [
        ['1', '2'],
        ['', '4'],
      ],
    })
    const responses = await caller.rows(`/v2/responses?form=${forms[0].id}`)
    expect(responses.map(({ answers }) => answers.map(({ answer_text }: Loose) => answer_text))).toEqual([
      ['1', '2'],
      [null, '4'],
    ])
    for (const form of forms.slice(1)) {
      expect((await caller.get(`/v2/responses?form=${form.id}`)).body.count).toBeGreaterThan(0)
    }
    expect(emulator.imported).toMatchObject({ patients: 3, forms: 2, questions: 3, responses: 2 })
    expect(await callerOf(emulator, 0, 1).rows('/v2/forms')).toHaveLength(2)
  })

  it.each([
    ['that is not there', join(folder, 'none.csv'), /cannot be read/],
    ['that is empty', written('', 'empty.csv'), /is empty/],
    [
      'that holds nothing but line ends and a byte order mark',
      written('\ufeff\r\n\n', 'blank.csv'),
      /is empty/,
    ],
    [
      'that ends inside a cell',
      written('a,b\n1,"2', 'open.csv'),
      /is not valid CSV \(CSV_QUOTE_NOT_CLOSED, line 2\)/,
    ],
  ])('%s is refused, and the option is named', async (_title, importSurvey, reason) => {
    const error = await startEmulator({ port: 0, importSurvey }).catch((thrown: unknown) => thrown)
    expect((error as EmulatorOptionError).option).toBe('import-survey')
    expect((error as Error).message).toMatch(reason)
  })
})
