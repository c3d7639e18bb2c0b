/** The report of a verification: sums over teams, verdicts, and no more ids than somebody reads. */
import { expect, it } from 'vitest'
import { verifyDocument, verifyText } from '../../../src/commands/inspect/verify-report.ts'
import type { TeamVerified } from '../../../src/reconcile/verify/verify.ts'
import type { StreamResult } from '../../../src/reconcile/verify/verify-stream.ts'
import { contextOf } from '../output-context.ts'

const context = contextOf()

const SAME = {
  ...{ missing: [], extra: [], different: [], repaired: 0, newer: 0, notDue: 0, payloadsOnly: 0, note: null },
  sums: {
    ...{ source: 3, warehouse: 4, sourceHash: 'a', warehouseHash: 'b' },
    ...{ sourceContentHash: 'c', warehouseContentHash: 'd' },
  },
}
const compared = (stream: string, more: object = {}) =>
  ({ stream, status: 'succeeded', verified: { ...SAME, ...more } }) as unknown as StreamResult
const failed = (stream: string, error: string) => ({ stream, status: 'failed', error }) as StreamResult
const ids = (count: number, prefix: string) => Array.from({ length: count }, (_, at) => `${prefix}${at + 1}`)

const north: TeamVerified = {
  name: 'north',
  streams: [
    compared('patients', {
      ...{
        missing: ids(6, 'm'),
        extra: ['e'],
        repaired: 2,
        newer: 1,
        notDue: 2,
        payloadsOnly: 4,
        note: 'first',
      },
      different: [
        { id: 'd1', fields: ['_hash', 'city', 'intake_raw.records'] },
        { id: 'd2', fields: ['_hash', 'intake_raw.records'] },
      ],
    }),
    compared('forms', { missing: ['f'], repaired: 1 }),
  ],
  deep: null,
}
const south: TeamVerified = {
  name: 'south',
  streams: [failed('patients', 'the service failed'), compared('forms', { note: 'second' })],
  deep: {
    ...{ rows: 5, cells: 50, cellsNotCompared: 3, columnsNotCompared: 2 },
    differences: [
      { export_id: 'x', response_id: null, row_number: 0, position: null },
      { export_id: 'y', response_id: 'r', row_number: null, position: 0 },
    ],
  },
}
const summary = (teams: readonly TeamVerified[], equal = false, status = 'needs_attention') =>
  ({ runId: '9', status, equal, teams }) as Parameters<typeof verifyDocument>[0]

it('the document has the comparison of answers itself where there is one team, and of each team where there are several', () => {
  const deep = {
    rows: 5,
    cells: 50,
    cells_not_compared: 3,
    columns_not_compared: 2,
    differences: south.deep!.differences,
  }
  const of = (teams: readonly TeamVerified[]) =>
    verifyDocument(summary(teams)) as { deep: unknown; teams: Record<string, { deep: unknown }> }
  expect(of([south])).toMatchObject({ deep, teams: { south: { deep } } })
  expect(of([north]).deep).toBeNull()
  const both = of([south, north])
  expect([both.deep, both.teams.south!.deep, both.teams.north!.deep]).toEqual([null, deep, null])
})

it('the document sums up the teams, and an unknown figure makes its sum unknown', () => {
  const document = verifyDocument(summary([north, south])) as {
    streams: Record<string, unknown>
    teams: Record<string, { streams: Record<string, unknown>; deep: unknown }>
    deep: unknown
  }
  expect(document.streams.patients).toEqual({
    ...{ source: null, warehouse: null, missing: ids(6, 'm'), extra: ['e'], repaired: 2, newer: 3 },
    different: [expect.objectContaining({ id: 'd1' }), expect.objectContaining({ id: 'd2' })],
    ...{ payloads_only: 4, source_hash: null, warehouse_hash: null },
    ...{
      source_content_hash: null,
      warehouse_content_hash: null,
      note: 'first',
      error: 'the service failed',
    },
  })
  expect(document.streams.forms).toMatchObject({
    source: 6,
    warehouse: 8,
    missing: ['f'],
    repaired: 1,
    note: 'second',
  })
  expect(document.teams.north!.streams.patients).toMatchObject({
    ...{
      source: 3,
      warehouse: 4,
      source_hash: 'a',
      warehouse_hash: 'b',
      source_content_hash: 'c',
      warehouse_content_hash: 'd',
    },
  })
  expect(document.teams.south!.deep).toMatchObject({
    rows: 5,
    cells_not_compared: 3,
    columns_not_compared: 2,
  })
  expect([document.deep, document.teams.north!.deep]).toEqual([null, null])
  expect(verifyDocument(summary([south]))).toMatchObject({ deep: { rows: 5 } })
  // Both directions, both texts.
  expect(verifyDocument(summary([south, north]))).toMatchObject({ streams: { patients: { source: null } } })
  const twice = summary([
    { ...north, name: 'a' },
    { ...north, name: 'b' },
  ])
  expect(verifyDocument(twice)).toMatchObject({
    streams: { patients: { note: 'first; first', error: null } },
  })
})

it('the text has a verdict for each stream of each team, five ids of each kind, and names of columns', () => {
  const lines = verifyText(context, summary([north, south])).split('\n')
  expect(lines.map((line) => line.replace(/ +/g, ' '))).toEqual([
    'stream source warehouse missing extra different repaired',
    'north/patients 3 4 6 1 2 2 differs',
    'north/forms 3 4 1 0 0 1 repaired',
    'south/patients - - 0 0 0 0 failed',
    'south/forms 3 4 0 0 0 0 equal',
    '',
    'run 9: needs attention',
    'north/patients missing: m1, m2, m3, m4, m5 and 1 more (--json lists all)',
    'north/patients extra: e',
    'north/patients different: d1 (city), d2 (the stored payload)',
    'north/patients: first',
    'north/forms missing: f',
    'south: exports and responses: 5 rows, 50 cells, 2 column(s) of unknown questions not compared: differ in 2 place(s): x row 0 column - (response none), y row - column 0 (response r)',
    'south/patients: the service failed',
    'south/forms: second',
    '',
  ])
})

it('of one team no name is shown; the end says equal, repaired, or what else', () => {
  const deep = { rows: 1, cells: 2, cellsNotCompared: 0, columnsNotCompared: 0, differences: [] }
  const one = { name: 'only', streams: [compared('forms', { missing: ids(5, 'm') })], deep }
  const text = verifyText(context, summary([one], true))
  expect(text).toMatch(/^forms +3 +4 +5 +0 +0 +0 +differs$/m)
  expect(text).toContain('run 9: equal\nexports and responses: 1 rows, 2 cells: agree\n')
  expect(text).toContain('forms missing: m1, m2, m3, m4, m5\n')
  expect(verifyText(context, summary([one], false, 'succeeded'))).toContain('run 9: repaired\n')
  expect(verifyText(context, summary([one], false, 'failed'))).toContain('run 9: failed\n')
})

it('figures of all teams are sums, their lists and notes are joined, and hashes have none', () => {
  const figures = (count: number, note: string) => ({
    ...{
      missing: ids(count, 'm'),
      extra: ids(count + 1, 'e'),
      different: [{ id: `d${count}`, fields: ['city'] }],
    },
    ...{ repaired: count, newer: count * 10, notDue: 1, payloadsOnly: count * 100, note },
  })
  const teams = [2, 3].map(
    (count): TeamVerified => ({
      ...{ name: `team ${count}`, deep: null },
      streams: [compared('patients', figures(count, `note ${count}`)), failed('forms', `error ${count}`)],
    }),
  )
  const { streams } = verifyDocument(summary(teams)) as { streams: object }
  const unknown = {
    ...{ source_hash: null, warehouse_hash: null, source_content_hash: null, warehouse_content_hash: null },
  }
  expect(streams).toEqual({
    patients: {
      ...{ source: 6, warehouse: 8, missing: ['m1', 'm2', 'm1', 'm2', 'm3'] },
      extra: ['e1', 'e2', 'e3', 'e1', 'e2', 'e3', 'e4'],
      different: ['d2', 'd3'].map((id) => ({ id, fields: ['city'] })),
      ...{ repaired: 5, newer: 52, payloads_only: 500, ...unknown, note: 'note 2; note 3', error: null },
    },
    forms: {
      ...{ source: null, warehouse: null, missing: [], extra: [], different: [] },
      ...{ repaired: 0, newer: 0, payloads_only: 0, ...unknown, note: null, error: 'error 2; error 3' },
    },
  })
  const text = verifyText(context, summary(teams))
  expect(
    text
      .split('\n')
      .filter((line) => line.includes('/patients '))
      .map((line) => line.split(/\s{2,}/)),
  ).toEqual([
    ['team 2/patients', '3', '4', '2', '3', '1', '2', 'differs'],
    ['team 3/patients', '3', '4', '3', '4', '1', '3', 'differs'],
    ...[2, 3].flatMap((count) => [
      [`team ${count}/patients missing: ${ids(count, 'm').join(', ')}`],
      [`team ${count}/patients extra: ${ids(count + 1, 'e').join(', ')}`],
      [`team ${count}/patients different: d${count} (city)`],
    ]),
  ])
})

it('a stream is repaired where all that differed was, and only then', () => {
  const figures = { missing: ['m'], extra: ['e'], different: [{ id: 'd', fields: ['city'] }] }
  const verdicts = [0, 1, 2, 3].map((repaired) => {
    const streams = [compared('patients', { ...figures, repaired })]
    return verifyText(context, summary([{ name: 'north', streams, deep: null }]))
      .split('\n')
      .find((line) => line.startsWith('patients '))!
      .split(/\s+/)
      .at(-1)
  })
  expect(verdicts).toEqual(['differs', 'differs', 'differs', 'repaired'])
})
