/** Tables of a FHIR Questionnaire: where their rows and columns come from. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { importQuestionnaires } from '../../../src/emulator/imports/questionnaire.ts'
import { IdSpace, keyOf } from '../../../src/emulator/world/draw.ts'
import type { Question } from '../../../src/emulator/world/records.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('tables-')
afterAll(() => removeFolder(folder))

const key = keyOf('tables')

function questionsOf(item: readonly object[]): readonly Question[] {
  const content = { resourceType: 'Questionnaire', item: [{ linkId: 'first', type: 'string' }, ...item] }
  writeFileSync(join(folder, 'x.json'), JSON.stringify(content))
  const { forms, failed } = importQuestionnaires(folder)
  expect(failed).toEqual([])
  return forms[0]!(new IdSpace(key), key, 0).questions.slice(1)
}

const TABLE = {
  ...{ linkId: 'table', type: 'group', text: 'Table' },
  extension: [
    {
      url: 'http://hl7.org/fhir/StructureDefinition/questionnaire-itemControl',
      valueCodeableConcept: { coding: [{ code: 'gtable' }] },
    },
  ],
}
const row = (linkId: string, ...texts: string[]) => ({
  ...{ linkId, type: 'choice', text: `Row ${linkId}` },
  answerOption: texts.map((valueString) => ({ valueString })),
})
const group = (linkId: string, ...texts: string[]) => ({
  ...{ linkId, type: 'group', text: `Row ${linkId}` },
  item: texts.map((text, at) => ({ linkId: `${linkId}.${at}`, type: 'string', text })),
})
const textsOf = (parts: readonly { readonly text: string }[] | undefined) => parts?.map(({ text }) => text)

it('a table of choices has those of its first row as columns, each once; every row keeps its own', () => {
  const [table, ...rows] = questionsOf([
    { ...TABLE, item: [row('a', 'yes', 'no', 'yes'), row('b', 'often', 'never'), row('c')] },
  ])
  expect([textsOf(table!.rows), textsOf(table!.columns)]).toEqual([
    ['Row a', 'Row b', 'Row c'],
    ['yes', 'no'],
  ])
  expect(rows.map(({ choices, block }) => [block, ...choices.map((one) => one.text_value)])).toEqual([
    [table!.id, 'yes', 'no', 'yes'],
    [table!.id, 'often', 'never'],
    [table!.id],
  ])
})

it('a table of groups has a column for each text of their items, in the order in which they come first', () => {
  const [table, ...cells] = questionsOf([
    { ...TABLE, item: [group('a', 'Dose', 'Unit'), group('b', 'Unit', 'Time', 'Dose')] },
  ])
  expect([textsOf(table!.rows), textsOf(table!.columns)]).toEqual([
    ['Row a', 'Row b'],
    ['Dose', 'Unit', 'Time'],
  ])
  expect(cells.map(({ text, block }) => [text, block === table!.id])).toEqual(
    ['Dose', 'Unit', 'Unit', 'Time', 'Dose'].map((text) => [text, true]),
  )
  const headings = [...table!.rows!, ...table!.columns!].map(({ id }) => id)
  expect(new Set([...headings, ...cells.map(({ id }) => id)]).size).toBe(10)
})

it('a table that repeats, or whose rows ask nothing, is not imported as a matrix of answers', () => {
  const [repeated] = questionsOf([{ ...TABLE, repeats: true, item: [row('a', 'yes')] }])
  expect(repeated!.question_type).toEqual({ question_type: 'repeated_block', question_subtype: 'table' })
  expect([repeated!.rows, repeated!.columns]).toEqual([undefined, undefined])
  const [empty] = questionsOf([{ ...TABLE, item: [] }])
  expect(empty!.question_type).toEqual({ question_type: 'display_only', question_subtype: 'group' })
  const [shown] = questionsOf([{ ...TABLE, item: [{ linkId: 's', type: 'display', text: 'Only shown' }] }])
  expect([textsOf(shown!.rows), shown!.columns]).toEqual([['Only shown'], []])
})

it('an item belongs to the innermost table or repeated group around it; plain groups in between do not count', () => {
  const leaf = (linkId: string) => ({ linkId, type: 'string', text: linkId })
  const plain = (linkId: string, ...item: object[]) => ({ linkId, type: 'group', text: linkId, item })
  const repeated = (linkId: string, ...item: object[]) => ({ ...plain(linkId, ...item), repeats: true })
  const questions = questionsOf([
    plain(
      'page',
      repeated(
        'outer',
        leaf('a'),
        plain('between', leaf('b'), repeated('inner', leaf('c')), leaf('d')),
        leaf('e'),
      ),
      leaf('f'),
      { ...repeated('again', leaf('g')), item: [{ ...leaf('g'), item: [leaf('h')] }] },
    ),
    leaf('i'),
  ])
  const named = (id: string | undefined) => questions.find((one) => one.id === id)?.text
  expect(questions.map(({ text, block }) => [text, named(block)])).toEqual([
    ['outer', undefined],
    ['a', 'outer'],
    ['b', 'outer'],
    ['inner', 'outer'],
    ['c', 'inner'],
    ['d', 'outer'],
    ['e', 'outer'],
    ['f', undefined],
    ['again', undefined],
    ['g', 'again'],
    ['h', 'again'],
    ['i', undefined],
  ])
})

it('a question inside a question is on the page and in the section of that one, also after a group', () => {
  const leaf = (linkId: string, ...item: object[]) => ({ linkId, type: 'string', text: linkId, item })
  const group = (linkId: string, ...item: object[]) => ({ linkId, type: 'group', text: linkId, item })
  const questions = questionsOf([
    group('1', group('1.1', leaf('a')), leaf('b', leaf('c', leaf('d')))),
    leaf('e', leaf('f')),
    group('2', leaf('g')),
    leaf('h', leaf('i')),
  ])
  expect(questions.map(({ text, page, section, row }) => [text, page, section, row])).toEqual([
    ['a', 1, 1, 2],
    ['b', 1, 2, 1],
    ['c', 1, 2, 2],
    ['d', 1, 2, 3],
    ['e', 2, 1, 1],
    ['f', 2, 1, 2],
    ['g', 2, 1, 3],
    ['h', 3, 1, 1],
    ['i', 3, 1, 2],
  ])
})
