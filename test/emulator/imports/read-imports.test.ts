/** Files that are imported, without a service: every value of every row, and reports of the whole. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { NO_FIELDS } from '../../../src/emulator/http/resources/patient-body.ts'
import { type ImportFiles, readImports } from '../../../src/emulator/imports/read-imports.ts'
import { importSurvey } from '../../../src/emulator/imports/survey.ts'
import { IdSpace, keyOf } from '../../../src/emulator/world/draw.ts'

const folder = mkdtempSync(join(tmpdir(), 'emulator-imports-'))
afterAll(() => rmSync(folder, { recursive: true }))

function written(name: string, content: string): string {
  const file = join(folder, name)
  writeFileSync(file, content)
  return file
}

const NO_FILES: ImportFiles = { importPatients: undefined, importQuestionnaires: undefined, importSurvey: [] }

async function peopleOf(name: string, content: string) {
  const { imported } = await readImports({ ...NO_FILES, importPatients: written(name, content) })
  return imported.patients
}

describe('people', () => {
  it('without anything to import are none, and so are forms and answers', async () => {
    expect(await readImports(NO_FILES)).toEqual({
      imported: { patients: [], forms: [], surveys: [] },
      report: { patients: 0, forms: 0, questions: 0, responses: 0, skipped: [], failed: [] },
    })
  })

  it.each([
    ['1990-12-31', '1990-12-31'],
    ['19901231', '1990-12-31'],
    ['19901331', null],
    ['1990-02-30', null],
    ['119901231', null],
    ['199012311', null],
    ['31.12.1990', null],
    ['', null],
  ])('who were born on %j are born on %j, and what is no date is a custom field', async (given, born) => {
    const expected =
      born === null ? { ...NO_FIELDS, custom_fields: { DOB: given } } : { ...NO_FIELDS, date_birth: born }
    expect(await peopleOf('born.csv', `DOB,x\n${given},1\n`)).toEqual([
      { ...expected, custom_fields: { ...expected.custom_fields, x: '1' } },
    ])
  })

  it('have values of other columns as custom fields, each under a name of its own', async () => {
    const text = 'First, First ,id,patient_id,note,note,note,\nA,B,1,2,x,y,z,w,more,most\n\nC\n'
    expect(await peopleOf('people.csv', text)).toEqual([
      {
        ...NO_FIELDS,
        ...{ first_name: 'A', external_id: '1' },
        custom_fields: {
          ...{ First: 'B', patient_id: '2', note: 'x', 'note (2)': 'y', 'note (3)': 'z', '': 'w' },
          ...{ 'column 9': 'more', 'column 10': 'most' },
        },
      },
      { ...NO_FIELDS, first_name: 'C' },
    ])
  })

  it('have no space before a value where each comma of the header has one, and otherwise as it is', async () => {
    const values = async (text: string) =>
      (await peopleOf('spaced.csv', text)).map(({ first_name, city }) => [first_name, city])
    expect(await values('first, city\nA, Ulm\n B,  Bonn\n')).toEqual([
      ['A', 'Ulm'],
      ['B', 'Bonn'],
    ])
    expect(await values('first, city,note\nA, Ulm,x\n')).toEqual([['A', ' Ulm']])
    expect(await values('first,city\nA, Ulm\n')).toEqual([['A', ' Ulm']])
    expect(await values('first\n A\n')).toEqual([[' A', '']])
    expect(await values('first,city\r\nA, Ulm\r\nB,"x, y"')).toEqual([
      ['A', ' Ulm'],
      ['B', 'x, y'],
    ])
  })

  it('of a JSON file have texts as they are, other values as JSON, and no fields that are null', async () => {
    const rows = [{ first: 'A', last: null, id: 7, tags: ['x', 1], active: false, more: { a: null } }, {}]
    const expected = [
      {
        ...{ ...NO_FIELDS, first_name: 'A', external_id: '7' },
        custom_fields: { tags: '["x",1]', active: 'false', more: '{"a":null}' },
      },
      NO_FIELDS,
    ]
    for (const name of ['people.json', 'PEOPLE.JSON'])
      expect(await peopleOf(name, JSON.stringify(rows))).toEqual(expected)
  })

  it.each([
    ['people.json', '{}', 'is not a JSON array'],
    ['people.json', '[1]', 'contains an item that is not an object'],
    ['people.json', '[null]', 'contains an item that is not an object'],
    ['people.json', '[[]]', 'contains an item that is not an object'],
    ['people.json', '[', ''],
    ['people.csv', '', 'is empty'],
    ['people.csv', '\n\n', 'is empty'],
    ['people.csv', 'a\n"b', ''],
  ])('in %s with %j are refused with the option, the file and the reason', async (name, content, reason) => {
    const error = await peopleOf(name, content).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ name: 'EmulatorOptionError', option: 'import-patients' })
    expect(String(error)).toContain(`--import-patients: ${join(folder, name)} cannot be read: ${reason}`)
  })
})

describe('surveys', () => {
  it('follow the people, each with a form, and count with them', async () => {
    const importSurvey = [written('First.csv', 'a,b\n1,2\n3\n'), written('Second.csv', 'c\n\n5,6\n')]
    const importPatients = written('before.csv', 'first\nA\nB\n')
    const { imported, report } = await readImports({ ...NO_FILES, importPatients, importSurvey })
    expect(report).toEqual({
      ...{ patients: 5, forms: 2, questions: 4, responses: 3, skipped: [], failed: [] },
    })
    expect(imported.surveys).toEqual([
      { form: 0, firstPatient: 2, rows: [['1', '2'], ['3']] },
      { form: 1, firstPatient: 4, rows: [['5', '6']] },
    ])
    expect(imported.patients.map(({ first_name, external_id }) => [first_name !== '', external_id])).toEqual([
      ...[null, null, 'row 1', 'row 2', 'row 1'].map((id) => [true, id]),
    ])
    const ids = new IdSpace(keyOf('forms'))
    const forms = imported.forms.map((form, at) => form(ids, keyOf('x'), at))
    expect(
      forms.map(({ id, name, text, enabled, questions }) => ({
        ...{ id, name, text, enabled },
        questions: questions.map((question) => [question.text, question.question_type.question_type]),
      })),
    ).toEqual([
      {
        ...{ id: ids.idAt(0), name: 'First', text: '', enabled: true },
        questions: ['a', 'b'].map((text) => [text, 'short_text']),
      },
      {
        ...{ id: ids.idAt(1), name: 'Second', text: '', enabled: true },
        questions: ['c', ''].map((text) => [text, 'short_text']),
      },
    ])
    for (const { created_at, updated_at } of forms) expect(updated_at >= created_at).toBe(true)
  })

  it('have the same invented clients in every run, and others under another name', async () => {
    const rows = Array.from({ length: 40 }, (_, nth) => `${nth}\n`).join('')
    const clients = async (name: string) => (await importSurvey(written(name, `n\n${rows}`))).clients
    const [one, again, other] = [
      await clients('one.csv'),
      await clients('one.csv'),
      await clients('other.csv'),
    ]
    expect(again).toEqual(one)
    expect(one.slice(0, 3).map(({ first_name, last_name }) => `${first_name} ${last_name}`)).toEqual([
      ...['伟 Jones', 'Ελένη Ng', 'Daniel Brown'],
    ])
    expect(other).not.toEqual(one)
    expect(one.map(({ external_id }) => external_id)).toEqual(
      Array.from({ length: 40 }, (_, nth) => `row ${nth + 1}`),
    )
    for (const client of one) {
      const { external_id: _, first_name, last_name, ...others } = client
      expect(others).toEqual(
        (({ external_id: _e, first_name: _f, last_name: _l, ...rest }) => rest)(NO_FIELDS),
      )
      expect([first_name, last_name]).not.toContain('')
    }
    expect(
      new Set(one.map(({ first_name, last_name }) => `${first_name} ${last_name}`)).size,
    ).toBeGreaterThan(20)
  })

  it('of titles alone have their questions, and what divides them is what makes most of them', async () => {
    for (const [text, questions] of [
      ['a;b;c,d', 3],
      ['a\tb', 2],
      ['a', 1],
    ] as const)
      expect([text, (await importSurvey(written('titles.csv', text))).questions]).toEqual([text, questions])
  })

  it.each<[separated: string, text: string, first: string[]]>([
    ['commas', 'a,b;c\n1,2;3\n', ['1', '2;3']],
    ['commas, if as many fit', 'a,b;c\n', []],
    ['semicolons', 'a,x;b;c\n1;2;3\n4;5;6\n', ['1', '2', '3']],
    ['tabs', 'a\tb,c\n1\t2\n3\t4\n', ['1', '2']],
    ['what divides more than half of the rows', 'a;b,c\n1;2\n3;4\n5,6\n', ['1', '2']],
    ['commas, if something else divides only half of the rows', 'a;b\n1;2\n3,4\n', ['1;2']],
    ['what splits more rows as the titles are split', 'a;b,c\n1;2,3\n4;5,6\n7;8;9,0\n', ['1;2', '3']],
    ['what splits into more cells, if as many rows fit', 'a;b;c,d\n1;2;3,4\n', ['1', '2', '3,4']],
    ['commas, if nothing divides them', 'a\n1;2\n', ['1;2']],
    ['what splits rows as the titles are split', 'a,x;b\n1,2,3;4\n5,6,7;8\n', ['1,2,3', '4']],
    ['the first twenty rows', `a;b,c\n${'1;2\n'.repeat(20)}${'1,2\n'.repeat(40)}`, ['1', '2']],
  ])('are divided by %s', async (_what, text, first) => {
    const { rows } = await importSurvey(written('divided.csv', text))
    expect(rows[0] ?? []).toEqual(first)
  })
})

describe('questionnaires', () => {
  it('are the files of a folder that are some, in the order of their paths; the others are named', async () => {
    const questions = mkdtempSync(join(folder, 'questions-'))
    const put = (name: string, content: string) => writeFileSync(join(questions, name), content)
    const asked = (title: string, ...texts: string[]) =>
      JSON.stringify({
        ...{ resourceType: 'Questionnaire', title },
        item: texts.map((text, at) => ({ linkId: String(at), type: 'string', text })),
      })
    put('b.json', asked('Second', 'Q3'))
    put('A.JSON', asked('First', 'Q1', 'Q2'))
    put('c.yml', 'resourceType: Questionnaire\ntitle: Third\nitem: []\n')
    put('d.yaml', 'title: [\n')
    put('e.json', '{')
    put('f.json', asked('x').replace('Questionnaire', 'Patient'))
    put('g.json', '[]')
    put('h.json', JSON.stringify({ resourceType: 'Questionnaire', item: {} }))
    put('note.txt', asked('Not read', 'Q'))
    const { imported, report } = await readImports({ ...NO_FILES, importQuestionnaires: questions })
    expect(report).toEqual({
      ...{ patients: 0, forms: 3, questions: 3, responses: 0, skipped: ['f.json', 'g.json'] },
      failed: [
        { file: 'd.yaml', reason: expect.stringMatching(/^is not valid YAML \([A-Z_]+, line \d\)$/) },
        { file: 'e.json', reason: 'is not valid JSON' },
        { file: 'h.json', reason: 'has another value where a list is expected' },
      ],
    })
    const [ids, key] = [new IdSpace(keyOf('forms')), keyOf('x')]
    expect(imported.forms.map((form, at) => form(ids, key, at).name)).toEqual(['First', 'Second', 'Third'])
  })

  it('of a folder that is not there are refused with the option', async () => {
    const importQuestionnaires = join(folder, 'nowhere')
    await expect(readImports({ ...NO_FILES, importQuestionnaires })).rejects.toMatchObject({
      ...{ name: 'EmulatorOptionError', option: 'import-questionnaires' },
      message: expect.stringContaining(`${importQuestionnaires} cannot be read: `),
    })
  })
})
