import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { callerOf, type Loose } from '../caller.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../real-data.ts'

/** What asks or shows something, found without the importer's help. */
function leavesOf(items: Loose[] | undefined): Loose[] {
  return (items ?? []).flatMap((item) => {
    const inner = leavesOf(item.item)
    return item.type === 'group' && inner.length > 0 ? inner : [item, ...inner]
  })
}

function realQuestionnaires(folder: string): Loose[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(json|ya?ml)$/.test(file))
    .map((file) => {
      const text = readFileSync(join(folder, file), 'utf8')
      return file.endsWith('.json')
        ? JSON.parse(text.replace(/^\ufeff/, ''))
        : parseYaml(text, { logLevel: 'silent' })
    })
    .filter((content) => content.resourceType === 'Questionnaire')
}

const nameOf = (content: Loose): string => content.title ?? content.name ?? content.id ?? ''
const asked = (name: string, question: Loose): string =>
  JSON.stringify([name, String(question.linkId ?? question.link_id ?? ''), question.text ?? ''])

describe.skipIf(realDataMissing)(`real questionnaires${reasonWhenMissing}`, () => {
  it.each(['beda-emr', 'lforms', 'android-fhir'])(
    '%s: every question is in a form, with its linkId, text and choices',
    async (name) => {
      const folder = realData(`questionnaires/${name}`)
      const sources = realQuestionnaires(folder)
      await using emulator = await startEmulator({ port: 0, forms: 0, importQuestionnaires: folder })
      const forms = await callerOf(emulator).rows('/v2/forms')
      expect(emulator.imported.failed).toEqual([])
      expect(forms).toHaveLength(sources.length)
      const served = new Map<string, Loose[]>()
      for (const form of forms) {
        for (const one of form.questions) {
          const key = asked(form.name, one)
          const same = served.get(key)
          if (same === undefined) served.set(key, [one])
          else same.push(one)
        }
      }
      const expected = new Map<string, number>()
      for (const source of sources) {
        for (const leaf of leavesOf(source.item)) {
          const key = asked(nameOf(source), leaf)
          const same = served.get(key) ?? []
          expected.set(key, (expected.get(key) ?? 0) + 1)
          expect(same.length, key).toBeGreaterThanOrEqual(expected.get(key)!)
          const options = leaf.answerOption ?? leaf.option ?? []
          expect(same.some((one) => one.choices.length === options.length) || options.length === 0).toBe(true)
        }
      }
    },
  )
})

const folder = mkdtempSync(join(tmpdir(), 'emulator-forms-'))
let emulator: Emulator
let forms: Loose[]

const item = (linkId: string, type: string, more: object = {}) => ({
  linkId,
  type,
  text: `Text ${linkId}`,
  ...more,
})
const control = (code: string) => ({
  extension: [
    {
      url: 'http://hl7.org/fhir/StructureDefinition/questionnaire-itemControl',
      valueCodeableConcept: { coding: [{ code }] },
    },
  ],
})

const points = (name: string, valueDecimal: number) => ({
  url: `http://hl7.org/fhir/StructureDefinition/${name}`,
  valueDecimal,
})

const score = (valueInteger: number) => ({
  url: 'http://hl7.org/fhir/StructureDefinition/itemWeight',
  valueInteger,
})

beforeAll(async () => {
  mkdirSync(join(folder, 'deep'))
  const write = (name: string, content: unknown) =>
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
  write('a.json', {
    resourceType: 'Questionnaire',
    title: 'All',
    contained: [
      {
        resourceType: 'ValueSet',
        id: 'vs',
        compose: { include: [{ concept: [{ code: 'x', display: 'Ex' }] }] },
      },
      {
        ...{ resourceType: 'ValueSet', id: 'nested' },
        compose: { include: [{ concept: [{ code: 'not', display: 'Not expanded' }] }] },
        expansion: {
          contains: [
            { code: 'a', display: 'A', contains: [{ code: 'b', extension: [score(2)] }] },
            { code: 'c', display: 'C' },
          ],
        },
      },
    ],
    item: [
      item('1', 'group', {
        item: [
          item('1.1', 'boolean'),
          item('1.2', 'group', { item: [item('1.2.1', 'date')] }),
          { linkId: '1.3', type: 'display' },
        ],
      }),
      item('2', 'choice', { repeats: true, answerValueSet: '#vs' }),
      item('3', 'choice', {
        answerOption: [
          { valueCoding: { code: 'a', display: 'A' } },
          { valueString: 'B' },
          { valueInteger: 3 },
          { value: { Coding: { code: 'd', display: 'D' } } },
        ],
        item: [item('3.1', 'string')],
      }),
      item('4', 'group', {
        ...control('gtable'),
        item: [
          item('4.1', 'choice', { answerOption: [{ valueString: 'Yes' }, { valueString: 'No' }] }),
          item('4.2', 'choice', { answerOption: [{ valueString: 'Yes' }, { valueString: 'No' }] }),
        ],
      }),
      item('5', 'group', { repeats: true, item: [item('5.1', 'decimal'), item('5.2', 'attachment')] }),
      item('6', 'group'),
      item('8', 'choice', {
        ...control('radio-button'),
        answerOption: [
          { valueCoding: { code: 'a', display: 'A', extension: [points('ordinalValue', 0)] } },
          { valueCoding: { code: 'b', display: 'B' }, extension: [points('itemWeight', 1.5)] },
          {
            valueString: 'C',
            extension: [{ url: 'http://hl7.org/fhir/StructureDefinition/rendering-xhtml' }],
          },
        ],
      }),
      item('9', 'integer', control('slider')),
      item('10', 'open-choice', control('check-box')),
      item('11', 'group', {
        ...{ ...control('table'), prefix: 'A)' },
        item: ['Noon', 'Night'].map((text, at) =>
          item(`11.${at}`, 'group', { text, item: [item(`11.${at}.1`, 'string', { text: 'Dose' })] }),
        ),
      }),
      item('12', 'group', { ...control('gtable'), repeats: true, item: [item('12.1', 'date')] }),
      item('13', 'choice', { answerValueSet: '#nested' }),
    ],
  })
  write(
    'deep/b.yaml',
    'resourceType: Questionnaire\nname: Yaml\nstatus: retired\nitem:\n  - linkId: 7\n    type: text\n',
  )
  write('bundle.json', { resourceType: 'Bundle' })
  write('broken.json', '{')
  write('wrong.json', { resourceType: 'Questionnaire', item: { linkId: '1' } })
  write('notes.txt', 'not looked at')
  emulator = await startEmulator({ port: 0, forms: 1, importQuestionnaires: folder })
  forms = await callerOf(emulator).rows('/v2/forms')
})
afterAll(async () => {
  await emulator.close()
  rmSync(folder, { recursive: true })
})

const question = (linkId: string) => forms[0].questions.find((one: Loose) => one.link_id === linkId)

describe('an imported questionnaire', () => {
  it('precedes the generated forms, also from nested folders', () => {
    expect(forms.map((form) => form.name)).toEqual(['All', 'Yaml', 'Intake'])
    expect(forms[1].questions).toMatchObject([{ link_id: '7', text: '' }])
    expect(forms.slice(0, 2).map(({ enabled }) => enabled)).toEqual([true, false])
  })

  it('gives types, subtypes and choices the service’s names', () => {
    const typeOf = (linkId: string) => question(linkId).question_type.question_type
    expect(['1.1', '1.2.1', '1.3', '2', '3', '3.1', '5.1', '5.2', '6'].map(typeOf)).toEqual([
      ...['checkbox', 'date', 'display_only', 'multiple_choice', 'single_choice'],
      ...['short_text', 'number', 'file', 'display_only'],
    ])
    const choices = (linkId: string) => question(linkId).choices.map((one: Loose) => one.text_value)
    expect(choices('2')).toEqual(['Ex'])
    expect(choices('3')).toEqual(['A', 'B', '3', 'D'])
  })

  it('keeps codes and points of options, and the type where the question’s own does not say it', () => {
    expect(question('8').choices).toMatchObject([
      { text_value: 'A', code: 'a', points: 0 },
      { text_value: 'B', code: 'b', points: 1.5 },
      { text_value: 'C' },
    ])
    expect(question('8').choices[2]).not.toHaveProperty('points')
    const subtypes = ['1.1', '5.1', '8', '9', '10', '6'].map(
      (linkId) => question(linkId).question_type.question_subtype,
    )
    expect(subtypes).toEqual([null, null, 'radio-button', 'integer', 'open-choice', 'group'])
  })

  it('turns tables into a matrix and repeated groups into a block, whose members name it', () => {
    const [table, block] = [question('4'), question('5')]
    expect(table.question_type.question_type).toBe('matrix')
    expect(table.rows.map((one: Loose) => one.text)).toEqual(['Text 4.1', 'Text 4.2'])
    expect(table.columns.map((one: Loose) => one.text)).toEqual(['Yes', 'No'])
    expect(block.question_type.question_type).toBe('repeated_block')
    expect([question('4.1').block, question('4.2').block]).toEqual([table.id, table.id])
    expect([question('5.1').block, question('5.2').block]).toEqual([block.id, block.id])
    const [nested, repeated] = [question('11'), question('12')]
    expect(nested.rows.map((one: Loose) => one.text)).toEqual(['Noon', 'Night'])
    expect(nested.columns.map((one: Loose) => one.text)).toEqual(['Dose'])
    expect([nested.help_text, question('11.1.1').block]).toEqual(['A)', nested.id])
    const type = { question_type: 'repeated_block', question_subtype: 'table' }
    expect([repeated.question_type, question('12.1').block]).toEqual([type, repeated.id])
  })

  it('has the choices of an expanded value set, nested ones too, each with its points', () => {
    expect(question('13').choices).toMatchObject([
      { text_value: 'A', code: 'a' },
      { text_value: 'b', code: 'b', points: 2 },
      { text_value: 'C', code: 'c' },
    ])
  })

  it('counts pages and sections by its groups', () => {
    const place = (linkId: string) => [question(linkId).page, question(linkId).section, question(linkId).row]
    expect([place('1.1'), place('1.2.1'), place('1.3'), place('2')]).toEqual([
      [1, 1, 1],
      [1, 1, 2],
      [1, 2, 1],
      [2, 1, 1],
    ])
  })

  it('that is malformed, or no questionnaire, is reported, and the others are imported', () => {
    expect(emulator.imported).toMatchObject({ forms: 2, skipped: ['bundle.json'] })
    expect(emulator.imported.failed.map(({ file }) => file)).toEqual(['broken.json', 'wrong.json'])
  })
})
