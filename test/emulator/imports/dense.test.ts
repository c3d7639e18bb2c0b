/**
 * Compares the form of a questionnaire in which everything is inside everything else with test/emulator/recorded. After an
 * intended change, `npx vitest run test/emulator/imports/dense.test.ts -u` updates the recording; read the difference.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { importQuestionnaires } from '../../../src/emulator/imports/questionnaire.ts'
import { IdSpace, keyOf } from '../../../src/emulator/world/draw.ts'

const control = (code: string) => ({
  extension: [
    { url: 'http://x/other', valueCode: 'no' },
    { url: 'http://x/questionnaire-itemControl', valueCodeableConcept: { coding: [{ code }] } },
  ],
})
const item = (linkId: string, type: string, more: object = {}) => ({
  linkId,
  type,
  text: `Text ${linkId}`,
  ...more,
})
const group = (linkId: string, items: object[], more: object = {}) =>
  item(linkId, 'group', { item: items, ...more })
const score = (value: number) => ({ extension: [{ url: 'http://x/ordinalValue', valueDecimal: value }] })
const yesNo = [
  { valueCoding: { code: 'y', display: 'Yes', ...score(1.5) } },
  { valueString: 'No', ...score(0) },
  { valueInteger: 7 },
]
const cells = (linkId: string) =>
  ['Dose', 'Since', 'Dose'].map((text, at) => ({ ...item(`${linkId}.${at}`, 'string'), text }))

const QUESTIONNAIRE = {
  resourceType: 'Questionnaire',
  ...{ id: 'dense', name: 'DenseName', title: 'Dense', description: 'All of it', status: 'retired' },
  contained: [
    {
      id: 'set',
      resourceType: 'ValueSet',
      compose: { include: [{ concept: [{ code: 'a', display: 'A' }] }, { concept: [{ code: 'b' }] }] },
    },
    {
      id: 'big',
      url: 'http://x/big',
      expansion: { contains: [{ code: '1', display: 'One', contains: [{ code: '2', display: 'Two' }] }] },
    },
  ],
  item: [
    item('before', 'string', { prefix: '1.' }),
    group('first', [
      item('f1', 'choice', { answerOption: yesNo }),
      group('inner', [
        item('i1', 'boolean', { item: [item('i1a', 'text', { item: [item('i1a1', 'date')] })] }),
      ]),
      item('f2', 'integer', control('slider')),
      group(
        'repeated',
        [item('r1', 'choice', { repeats: true, answerValueSet: '#set' }), item('r2', 'attachment')],
        { repeats: true },
      ),
      item('f3', 'decimal'),
    ]),
    item('between', 'display', { item: [item('below', 'open-choice', { answerValueSet: 'http://x/big' })] }),
    group('table', [group('row1', cells('row1')), group('row2', cells('row2'))], control('gtable')),
    group('columns', [item('c1', 'choice', { answerOption: yesNo }), item('c2', 'choice')], control('table')),
    group('tables', [
      group('again', cells('again'), { repeats: true, ...control('grid') }),
      item('t2', 'quantity'),
    ]),
    group('empty', []),
    group('last', [
      group('deep', [group('deeper', [item('d1', 'dateTime')]), item('d2', 'time')]),
      item('l2', 'url', control('text-box')),
    ]),
    item('after', 'reference'),
    item('odd', 'unheard-of', control('choice')),
  ],
}

it('a questionnaire of every kind of item, inside every kind of group, is the form that it was', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'emulator-dense-'))
  writeFileSync(join(folder, 'dense.json'), `\ufeff${JSON.stringify(QUESTIONNAIRE)}`)
  writeFileSync(join(folder, 'dense.yaml'), JSON.stringify(QUESTIONNAIRE))
  const { forms, questions, skipped, failed } = importQuestionnaires(folder)
  rmSync(folder, { recursive: true })
  const key = keyOf('dense')
  const [form, same] = forms.map((build) => build(new IdSpace(key), key, 3))
  expect([skipped, failed, questions, same]).toEqual([[], [], 2 * form!.questions.length, form])
  const { questions: all, ...head } = form!
  const ids = all.flatMap(({ id, choices, rows = [], columns = [] }) => [
    id,
    ...[...choices, ...rows, ...columns].map((one) => one.id),
  ])
  expect(new Set(ids).size).toBe(ids.length)
  const places = new Map(all.map(({ id, link_id }) => [id, link_id]))
  const lines = all.map(({ id, block, choices, rows, columns, ...rest }) => {
    const parts = [choices, rows, columns].map((part) => part?.map(({ id: _, ...one }) => one))
    return JSON.stringify({ id: id.slice(0, 8), ...rest, block: places.get(block ?? ''), parts })
  })
  const text = [JSON.stringify(head), ...lines, ''].join('\n')
  await expect(text).toMatchFileSnapshot(join(import.meta.dirname, '..', 'recorded', 'questionnaire.txt'))
})
