/** What each kind of item, option and value set of a FHIR Questionnaire becomes, without a service. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { importQuestionnaires } from '../../../src/emulator/imports/questionnaire.ts'
import { IdSpace, keyOf } from '../../../src/emulator/world/draw.ts'
import type { Form } from '../../../src/emulator/world/records.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const base = makeFolder('questionnaires-')
afterAll(() => removeFolder(base))

let folders = 0
function folderOf(files: Readonly<Record<string, string | object>>): string {
  const folder = join(base, String(++folders))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
  }
  return folder
}

const key = keyOf('questionnaires')
const ids = new IdSpace(key)

/** The form of one questionnaire. */
function formOf(questionnaire: object): Form {
  const content = { resourceType: 'Questionnaire', ...questionnaire }
  const { forms, failed } = importQuestionnaires(folderOf({ 'x.json': content }))
  expect(failed).toEqual([])
  return forms[0]!(ids, key, 7)
}

const ITEM_CONTROL = 'http://hl7.org/fhir/StructureDefinition/questionnaire-itemControl'
const control = (code: string) => ({
  extension: [{ url: ITEM_CONTROL, valueCodeableConcept: { coding: [{ code }] } }],
})

describe('an item', () => {
  const typeOf = (item: object) => {
    const { question_type, question_subtype } = formOf({ item: [item] }).questions[0]!.question_type
    return [question_type, question_subtype]
  }

  it.each<[string | undefined, string, string | null, string]>([
    ['boolean', 'checkbox', null, 'x-control'],
    ['decimal', 'number', null, 'x-control'],
    ['integer', 'number', 'integer', 'integer'],
    ['quantity', 'number', 'quantity', 'quantity'],
    ['date', 'date', null, 'x-control'],
    ['dateTime', 'datetime', null, 'x-control'],
    ['time', 'time', null, 'x-control'],
    ['string', 'short_text', null, 'x-control'],
    ['url', 'short_text', 'url', 'url'],
    ['reference', 'short_text', 'reference', 'reference'],
    ['text', 'long_text', null, 'x-control'],
    ['attachment', 'file', null, 'x-control'],
    ['display', 'display_only', null, 'x-control'],
    ['group', 'display_only', 'group', 'group'],
    ['choice', 'single_choice', null, 'x-control'],
    ['open-choice', 'single_choice', 'open-choice', 'open-choice'],
    ['coding', 'single_choice', 'coding', 'coding'],
    ['unheard-of', 'short_text', 'unheard-of', 'unheard-of'],
    [undefined, 'short_text', null, 'x-control'],
  ])('of the type %s is a %s of the subtype %s, and with a control %s', (type, own, subtype, controlled) => {
    expect(typeOf({ linkId: '1', type })).toEqual([own, subtype])
    expect(typeOf({ linkId: '1', type, ...control('x-control') })).toEqual([own, controlled])
    // Controls that would be read as a type say nothing.
    for (const code of ['time', 'choice', 'group'])
      expect(typeOf({ linkId: '1', type, ...control(code) })).toEqual([own, subtype])
  })

  it('with several answers is a multiple choice; one of another type stays what it is', () => {
    for (const type of ['choice', 'open-choice', 'coding'])
      expect(typeOf({ linkId: '1', type, repeats: true })[0]).toBe('multiple_choice')
    expect(typeOf({ linkId: '1', type: 'string', repeats: true })[0]).toBe('short_text')
  })

  it('may name its control in a field, as some servers do, or in one of several extensions', () => {
    const itemControl = { coding: [{ code: 'slider' }] }
    expect(typeOf({ linkId: '1', type: 'string', itemControl })).toEqual(['short_text', 'slider'])
    const extension = [{ url: 'http://x/other', valueCodeableConcept: { coding: [{ code: 'no' }] } }]
    const both = [...extension, ...control('yes').extension]
    expect(typeOf({ linkId: '1', type: 'string', extension: both })).toEqual(['short_text', 'yes'])
  })

  it.each(['table', 'htable', 'gtable', 'atable', 'grid', 'group-table'])(
    'that is a group with the control %s is a table, whose rows are its items',
    (code) => {
      const options = { answerOption: ['a', 'b'].map((valueString) => ({ valueString })) }
      const rows = ['1', '2'].map((linkId) => ({ linkId, type: 'choice', text: `Row ${linkId}`, ...options }))
      const [table, first] = formOf({
        item: [{ linkId: '0', type: 'group', item: rows, ...control(code) }],
      }).questions
      expect(table!.question_type).toEqual({ question_type: 'matrix', question_subtype: 'table' })
      expect(table!.rows!.map(({ text }) => text)).toEqual(['Row 1', 'Row 2'])
      expect(table!.columns!.map(({ text }) => text)).toEqual(['a', 'b'])
      expect(first!.block).toBe(table!.id)
    },
  )

  it('has its place, its words and the help of its prefix; only a repeated group is a question of its own', () => {
    const leaf = (linkId: string, more: object = {}) => ({
      linkId,
      type: 'string',
      text: `T${linkId}`,
      ...more,
    })
    const group = (linkId: string, item: object[], more: object = {}) => ({
      linkId,
      type: 'group',
      item,
      ...more,
    })
    const { questions, ...form } = formOf({
      ...{ title: 'Title', name: 'Name', id: 'id', description: 'About', status: 'active' },
      item: [
        leaf('1', { prefix: '1)' }),
        group('2', [
          leaf('2.1', { item: [leaf('2.1.1')] }),
          group('2.2', [group('2.2.1', [leaf('2.2.1.1')]), leaf('2.2.2')]),
          leaf('2.3'),
          group('2.4', [leaf('2.4.1')], { repeats: true, text: 'Again' }),
          leaf('2.5'),
        ]),
        leaf('3'),
      ],
    })
    expect(form).toMatchObject({ id: ids.idAt(7), name: 'Title', text: 'About', enabled: true })
    expect(form.created_at <= form.updated_at).toBe(true)
    const block = questions.find(({ link_id }) => link_id === '2.4')!
    expect(
      questions.map(({ link_id, order, page, section, row, block }) => [
        link_id,
        order,
        page,
        section,
        row,
        block,
      ]),
    ).toEqual([
      ['1', 1, 1, 1, 1, undefined],
      ['2.1', 2, 1, 1, 2, undefined],
      ['2.1.1', 3, 1, 1, 3, undefined],
      ['2.2.1.1', 4, 1, 1, 4, undefined],
      ['2.2.2', 5, 1, 1, 5, undefined],
      ['2.3', 6, 1, 2, 1, undefined],
      ['2.4', 7, 1, 2, 2, undefined],
      ['2.4.1', 8, 1, 2, 3, block.id],
      ['2.5', 9, 1, 3, 1, undefined],
      ['3', 10, 2, 1, 1, undefined],
    ])
    expect(block.question_type).toEqual({ question_type: 'repeated_block', question_subtype: null })
    expect([questions[0]!.text, questions[0]!.help_text, questions[1]!.help_text]).toEqual(['T1', '1)', ''])
    expect(new Set(questions.map(({ id }) => id)).size).toBe(10)
  })
})

describe('a form', () => {
  it.each([
    [{ title: 'T', name: 'N', id: 'I' }, 'T'],
    [{ name: 'N', id: 'I' }, 'N'],
    [{ title: '', id: 'I' }, 'I'],
    [{}, ''],
  ])('of %j is named "%s"', (fields, name) => {
    expect(formOf(fields).name).toBe(name)
  })

  it.each([
    ['active', true],
    ['draft', true],
    ['retired', false],
    [undefined, true],
  ])('that is %s can be filled in: %s', (status, enabled) => {
    expect(formOf({ status }).enabled).toBe(enabled)
  })
})

describe('the choices of an item', () => {
  const choicesOf = (item: object, more: object = {}) =>
    formOf({ item: [{ linkId: '1', type: 'choice', ...item }], ...more }).questions[0]!.choices.map(
      ({ id: _id, ...choice }) => choice,
    )
  const points = (name: string, value: object) => [
    { url: `http://hl7.org/fhir/StructureDefinition/${name}`, ...value },
  ]

  it('are texts of every kind of value, the display before the code, and a reference by its name', () => {
    const answerOption = [
      { valueString: 'S' },
      { valueInteger: 0 },
      { valueDate: '2026-01-01' },
      { valueCoding: { code: 'c', display: 'D' } },
      { valueCoding: { code: 'c' } },
      { valueCoding: { code: 'c', display: '' } },
      { valueReference: { reference: 'Patient/1' } },
      { valueReference: { reference: 'Patient/1', display: 'R' } },
      { value: { Coding: { code: 'v', display: 'V' } } },
      { value: { string: 'plain' } },
    ]
    expect(choicesOf({ answerOption })).toEqual([
      { text_value: 'S' },
      { text_value: '0' },
      { text_value: '2026-01-01' },
      { text_value: 'D', code: 'c' },
      { text_value: 'c', code: 'c' },
      { text_value: 'c', code: 'c' },
      { text_value: 'Patient/1' },
      { text_value: 'R' },
      { text_value: 'V', code: 'v' },
      { text_value: 'plain' },
    ])
  })

  it('are those of STU3 too, after the others, each with an id of its own', () => {
    const both = { answerOption: [{ valueString: 'a' }], option: [{ valueString: 'b' }] }
    expect(choicesOf(both)).toEqual([{ text_value: 'a' }, { text_value: 'b' }])
    const { questions } = formOf({ item: [{ linkId: '1', type: 'choice', ...both }] })
    expect(new Set(questions.flatMap(({ id, choices }) => [id, ...choices.map((one) => one.id)])).size).toBe(
      3,
    )
  })

  it.each<[string, object, number | undefined]>([
    ['ordinalValue', { valueDecimal: 1.5 }, 1.5],
    ['itemWeight', { valueDecimal: 0 }, 0],
    ['itemWeight', { valueInteger: 2 }, 2],
    ['valueset-ordinalValue', { valueDecimal: -1 }, -1],
    ['codesystem-ordinalValue', { valueDecimal: 3 }, 3],
    ['extension-score', { valueInteger: 4 }, 4],
    ['notItemWeight', { valueDecimal: 5 }, undefined],
    ['itemWeight', { valueString: '6' }, undefined],
    ['rendering-xhtml', { valueDecimal: 7 }, undefined],
  ])('have the points that %s says: %j', (name, value, expected) => {
    const extension = points(name, value)
    const coding = { code: 'c', display: 'C' }
    const plain = { text_value: 'C', code: 'c', ...(expected === undefined ? {} : { points: expected }) }
    expect(choicesOf({ answerOption: [{ valueCoding: coding, extension }] })).toEqual([plain])
    expect(choicesOf({ answerOption: [{ valueCoding: { ...coding, extension } }] })).toEqual([plain])
  })

  const set = (more: object) => ({ resourceType: 'ValueSet', ...more })
  const including = (...codes: string[]) => ({
    compose: { include: codes.map((code) => ({ concept: [{ code, display: code.toUpperCase() }] })) },
  })
  const chosen = (...codes: string[]) => codes.map((code) => ({ text_value: code.toUpperCase(), code }))

  it('are those of a value set in the file, by its id or address, in the order of its parts', () => {
    const contained = [
      set({ id: 'one', url: 'http://sets/one', ...including('a', 'b') }),
      set({ id: 'two', url: 'http://sets/two', ...including('c') }),
    ]
    expect(choicesOf({ answerValueSet: '#one' }, { contained })).toEqual(chosen('a', 'b'))
    expect(choicesOf({ answerValueSet: 'http://sets/two' }, { contained })).toEqual(chosen('c'))
    expect(choicesOf({ options: { reference: '#two' } }, { contained })).toEqual(chosen('c'))
    expect(choicesOf({ options: '#one' }, { contained })).toEqual(chosen('a', 'b'))
    for (const other of ['#three', 'one', 'http://sets/three', ''])
      expect(choicesOf({ answerValueSet: other }, { contained })).toEqual([])
    expect(choicesOf({}, { contained: [set({ url: '', ...including('a') })] })).toEqual([])
    const own = { answerOption: [{ valueString: 'own' }], answerValueSet: '#one' }
    expect(choicesOf(own, { contained })).toEqual([{ text_value: 'own' }])
  })
})

describe('a folder', () => {
  const questionnaire = (title: string, item: unknown = []) => ({
    resourceType: 'Questionnaire',
    title,
    item,
  })

  it('is read in the order of its paths, whatever the capitals of their endings', () => {
    const { forms, skipped, failed, questions } = importQuestionnaires(
      folderOf({
        'b.JSON': questionnaire('B', [{ linkId: '1' }, { linkId: '2' }]),
        'a/z.yml': 'resourceType: Questionnaire\ntitle: !!timestamp 2026-01-02\nitem: [{ linkId: 1 }]\n',
        'a/a.Yaml': 'resourceType: Questionnaire\ntitle: A\n',
        'C.json': `\ufeff${JSON.stringify(questionnaire('C'))}`,
        'd.json.bak': questionnaire('no'),
        'e.json': '[]',
        'f.json': 'null',
        'g.yaml': 'just a text',
      }),
    )
    const names = forms.map((build) => build(ids, key, 0).name)
    expect([names, skipped, failed, questions]).toEqual([
      ...[['C', 'A', '2026-01-02T00:00:00.000Z', 'B'], ['e.json', 'f.json', 'g.yaml'], [], 3],
    ])
  })

  it('says of each file that cannot be read why not, and nothing of what it contains', () => {
    const { forms, failed } = importQuestionnaires(
      folderOf({
        'a.json': '{"resourceType": "Questionnaire", "title": "Canary"',
        'b.json': questionnaire('B', { linkId: 'Canary' }),
        'c.json': questionnaire('C', ['Canary']),
        'd.yaml': 'resourceType: Questionnaire\ntitle: "Canary\n',
        'e.json': questionnaire('E'),
      }),
    )
    expect(forms.map((build) => build(ids, key, 0).name)).toEqual(['E'])
    expect(failed).toEqual([
      { file: 'a.json', reason: 'is not valid JSON' },
      { file: 'b.json', reason: 'has another value where a list is expected' },
      { file: 'c.json', reason: 'has another value where an object is expected' },
      { file: 'd.yaml', reason: expect.stringMatching(/^is not valid YAML \([A-Z_]+, line \d\)$/) },
    ])
  })
})
