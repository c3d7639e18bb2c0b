/** Sections 4.5 and 9 of the specification: the flat export of v2.1, compared with the legacy one. */
import { describe, expect } from 'vitest'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { asking, cells, exportIds, exportOfForm, LEADING, run, tableOf, typeOf } from './support/exporting.ts'
import { walk } from './support/reading.ts'
import { rule } from './support/rule.ts'
import { fillIn, questionWhere } from './support/sending.ts'

const service = serviceUnderTest()

describe('X-API-VERSION: v2.1', () => {
  const place = ({ page, section, row, order }: Loose) => [page, section, row, order]

  rule('4.5 "orders questions by page, section, row, then question"', ['control'], async () => {
    const { rows: forms } = await walk(service(), '/v2/forms')
    for (const form of forms) {
      const asked: Loose[] = asking(form).toSorted((a: Loose, b: Loose) => {
        const [first, second] = [place(a), place(b)]
        const at = first.findIndex((value, index) => value !== second[index])
        return at < 0 ? 0 : first[at] - second[at]
      })
      const { titles } = await exportOfForm(service(), form.id, 'v2.1')
      const rest = titles.slice(LEADING.length)
      for (const question of asked) {
        const width = typeOf(question) === 'matrix' ? question.rows.length * question.columns.length : 1
        for (const title of rest.splice(0, width)) expect(title.startsWith(question.text)).toBe(true)
      }
      expect(rest).toEqual([])
    }
  })

  rule('4.5 "exports all table rows using the per-column-per-row headers"', ['control'], async () => {
    const { form, question } = await questionWhere(
      service(),
      'a table',
      (one) => typeOf(one) === 'matrix' && one.question_type.question_subtype === null,
    )
    const [row, column] = [question.rows.at(-1).text, question.columns.at(-1).text]
    const { patient } = await fillIn(service(), form.id, { [question.id]: { [row]: { [column]: '81 mg' } } })
    const table = await exportOfForm(service(), form.id, 'v2.1')
    const titles = question.rows.flatMap(({ text: r }: Loose) =>
      question.columns.map(({ text: c }: Loose) => `${question.text} - ${r} - ${c}`),
    )
    expect(table.titles).toEqual(expect.arrayContaining(titles))
    for (const title of titles) {
      const expected = title === `${question.text} - ${row} - ${column}` ? '81 mg' : ''
      expect(cells(table, patient.id, title)).toEqual([expected])
    }
    const legacy = await exportOfForm(service(), form.id)
    expect(cells(legacy, patient.id, question.text)).toEqual([`${row} / ${column}: 81 mg`])
  })

  rule('4.5 "joins answers of repeated blocks with a semicolon and space"', ['control'], async () => {
    const { form, question } = await questionWhere(
      service(),
      'a repeated text',
      (one) => typeOf(one) === 'short_text' && one.block !== undefined,
    )
    const { patient } = await fillIn(service(), form.id, { [question.id]: ['first', 'second', 'second'] })
    expect(cells(await exportOfForm(service(), form.id, 'v2.1'), patient.id, question.text)).toEqual([
      'first; second; second',
    ])
    expect(cells(await exportOfForm(service(), form.id), patient.id, question.text)).toEqual(['second'])
  })

  rule(
    '4.5 "renders a checkbox confirmation question as confirmed when checked and blank otherwise"',
    ['control'],
    async () => {
      const { form, question } = await questionWhere(
        service(),
        'a checkbox',
        (one) => typeOf(one) === 'checkbox',
      )
      for (const [given, flat, legacy] of [
        [true, 'confirmed', 'True'],
        [false, '', 'False'],
      ] as const) {
        const { patient } = await fillIn(service(), form.id, { [question.id]: given })
        expect(cells(await exportOfForm(service(), form.id, 'v2.1'), patient.id, question.text)).toEqual([
          flat,
        ])
        expect(cells(await exportOfForm(service(), form.id), patient.id, question.text)).toEqual([legacy])
      }
    },
  )

  rule(
    '4.5 "Without the header the legacy shape is returned": the flat one only when asked for',
    [],
    async (skip) => {
      for (const id of await exportIds(service(), skip)) {
        for (const table of [
          tableOf(service(), await run(service(), id, '?type=raw_text')),
          tableOf(service(), await run(service(), id, '?type=raw_text', 'v2.1')),
        ]) {
          expect(table.titles.slice(0, 7)).toEqual(LEADING)
        }
      }
    },
  )
})
