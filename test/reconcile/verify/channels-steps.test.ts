/** Which cells of an export differ from the responses, and what is counted, without a warehouse. */
import { expect, test } from 'vitest'
import { compareChannels } from '../../../src/reconcile/verify/channels.ts'
import type { Session } from '../../../src/warehouse/connect.ts'
import { scripted } from '../../support/scripted.ts'

const column = (position: number, more: object = {}) => ({
  ...{ position, title: `t${position}`, questionId: `q${position}`, questionText: 'Q', type: 'short_text' },
  ...more,
})
const answer = (...values: readonly string[]) => ({ answers: [{ values }] })
const without = { cells: [{ row: null, column: 'a', value: 'x' }] }
const candidate = (id: string, sheets: object, isCompletedThen = true) => ({ id, isCompletedThen, sheets })

interface Given {
  readonly exports: readonly { readonly id: string; readonly formId: string }[]
  readonly columns: readonly object[]
  /** One portion after the other, of each export. */
  readonly portions: readonly (readonly object[])[]
  readonly unlisted?: readonly string[]
}

async function compared(
  { exports, columns, portions, unlisted = [] }: Given,
  signal = new AbortController().signal,
) {
  const asked: unknown[][] = []
  const made: string[] = []
  const left = [...portions]
  const db = scripted((statement, values) => {
    if (statement.startsWith('select id, form_id')) return exports
    if (statement.startsWith('select own.position')) return columns
    if (statement.startsWith('select distinct on')) return unlisted.map((id) => ({ id }))
    if (!statement.startsWith('with portion')) return []
    asked.push([values[0], values[1]])
    return left.shift() ?? []
  })
  const client = { query: async (text: string) => void made.push(text) }
  const found = await compareChannels({ db, client } as unknown as Session, 3, signal)
  return { found, asked, made }
}

test('every wrong cell of a row is reported, and every cell that cannot be compared is counted', async () => {
  const columns = [
    column(7),
    column(8),
    column(9),
    column(10, { questionId: null }),
    column(11, { questionId: null }),
  ]
  const tables = [column(12, { type: 'matrix' }), column(13, { type: 'matrix' })]
  const sheets = { q7: answer('a'), q8: answer('b'), q9: answer('c'), q12: without, q13: without }
  const row = {
    rowNumber: 5,
    cells: { 7: 'x', 8: 'b', 9: 'y' },
    candidates: [candidate('r1', sheets, false)],
  }
  const { found } = await compared({
    ...{ exports: [{ id: 'e', formId: 'f' }], columns: [...columns, ...tables], portions: [[row], []] },
  })
  const place = { export_id: 'e', response_id: 'r1', row_number: 5 }
  expect(found).toEqual({
    ...{ rows: 1, cells: 3, cellsNotCompared: 2, columnsNotCompared: 2 },
    differences: [6, 7, 9].map((position) => ({ ...place, position })),
  })
})

test('of several latest responses, the one with the fewest differences counts, the first of those with as many', async () => {
  const columns = [column(7), column(8)]
  const cells = { 7: 'a', 8: 'b' }
  const candidates = [
    candidate('r1', { q7: answer('x'), q8: answer('y') }),
    candidate('r2', { q7: answer('a'), q8: answer('y') }),
    candidate('r3', { q7: answer('x'), q8: answer('b') }),
  ]
  const { found } = await compared({
    ...{ exports: [{ id: 'e', formId: 'f' }], columns },
    portions: [[{ rowNumber: 1, cells, candidates }], []],
  })
  expect(found.differences).toEqual([{ export_id: 'e', response_id: 'r2', row_number: 1, position: 8 }])
})

test('rows are read in portions after the last one, of each export; rows and responses without a counterpart are reported', async () => {
  const row = (rowNumber: number) => ({ rowNumber, cells: {}, candidates: [] })
  const { found, asked, made } = await compared({
    exports: [
      { id: 'e1', formId: 'f' },
      { id: 'e2', formId: 'g' },
    ],
    columns: [column(7), column(8)],
    portions: [[row(1), row(4)], [row(9)], [], [row(2)], []],
    unlisted: ['r8', 'r9'],
  })
  expect(asked.map(([id, after]) => `${id} ${after}`)).toEqual(['e1 0', 'e1 4', 'e1 9', 'e2 0', 'e2 2'])
  expect(found).toMatchObject({ rows: 4, cells: 0, cellsNotCompared: 8, columnsNotCompared: 0 })
  const line = (id: string, ...rows: readonly (number | string)[]) => rows.map((each) => `${id} ${each}`)
  expect(found.differences.map((each) => `${each.export_id} ${each.row_number ?? each.response_id}`)).toEqual(
    [...line('e1', 1, 4, 9, 'r8', 'r9'), ...line('e2', 2, 'r8', 'r9')],
  )
  expect(found.differences.every(({ position }) => position === null)).toBe(true)
  // An index and statistics for each table that the comparison looks up.
  expect(made.map((text) => /expected_(\w+?)(?:_deep)?(?: |$)/.exec(text)![1])).toEqual(
    [
      ...['responses', 'response_answers', 'response_matrix_cells', 'response_files', 'response_signatures'],
      ...['export_rows', 'export_cells'],
    ].flatMap((table) => [table, table]),
  )
})

test('a signal ends it before the next portion', async () => {
  const stop = AbortSignal.abort(new Error('stopped'))
  await expect(
    compared({ exports: [{ id: 'e', formId: 'f' }], columns: [], portions: [[]] }, stop),
  ).rejects.toThrow('stopped')
})
