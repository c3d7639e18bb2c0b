import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { openResponse } from '../../../../src/emulator/world/clinic-responses.ts'
import { type Caller, callerOf } from '../../caller.ts'
import { expectedRows } from './expected-export.ts'
import { sheetOf, type Version } from './exporting.ts'

const LEADING = ['Client ID', 'First Name', 'Last Name', 'Email', 'Sent at', 'Completed at', 'Archived']

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 60, responses: 600 })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

describe.each(['legacy', 'v2.1'] as const)('the export of every form (%s)', (version) => {
  it('has the same answers for each client as the responses', async () => {
    const forms = await caller.rows('/v2/forms')
    let cells = 0
    for (const form of forms) {
      const { titles, rows } = await sheetOf(caller, form.name, version)
      expect(titles.slice(0, 7)).toEqual(LEADING)
      expect(rows).toEqual(await expectedRows(emulator, caller, form, version))
      expect(new Set(rows.map(([id]) => id)).size).toBe(rows.length)
      cells += rows.flat().filter((cell) => cell !== '').length
    }
    expect(cells).toBeGreaterThan(2000)
  })
})

describe('the columns of an export', () => {
  it('are ordered by page, section, row and question in v2.1, else by order, also in blocks and tables', async () => {
    const { control } = emulator
    const form = control.addForm({
      name: 'Columns',
      questions: [
        { type: 'short_text', text: 'late', page: 2 },
        { type: 'display_only', text: 'shown only' },
        { type: 'short_text', text: 'second section', section: 2 },
        { type: 'multiple_choice', text: 'same', choices: ['A', 'B', 'C, D'] },
        { type: 'checkbox', text: 'same', subtype: 'confirmation' },
        { type: 'matrix', text: 'M', rows: ['r1', 'r2'], columns: ['c1', 'c2', 'c3'] },
        {
          type: 'repeated_block',
          text: 'block',
          members: [
            { type: 'short_text', text: 'b1' },
            { type: 'checkbox', text: 'b2' },
          ],
        },
      ],
    })
    const byText = (text: string) => form.questions.find((one) => one.text === text)!.id
    const patient = control.createPatient({ first_name: 'A', last_name: 'B' }).id
    const nothing = { packet: null, document: null, message: null, packet_response: null }
    const { id } = openResponse(control.world(), { patient, form: form.id, ...nothing })
    control.staff().answer(id, {
      [byText('late')]: 'L',
      [byText('second section')]: 'S',
      [byText('same')]: ['A', 'C, D'],
      [form.questions[4]!.id]: true,
      [byText('M')]: { r1: { c1: '11', c3: '13' }, r2: { c1: '21' } },
      [byText('b1')]: ['x', '', 'z'],
      [byText('b2')]: [true, false, true],
    })
    const shown = async (version: Version) => {
      const { titles, rows } = await sheetOf(caller, 'Columns', version)
      return titles.slice(7).map((title, at) => [title, rows[0]![at + 7]])
    }
    expect(await shown('v2.1')).toEqual([
      ['same', 'A, C, D'],
      ['same', 'confirmed'],
      ['M - r1 - c1', '11'],
      ['M - r2 - c1', '21'],
      ['M - r1 - c2', ''],
      ['M - r2 - c2', ''],
      ['M - r1 - c3', '13'],
      ['M - r2 - c3', ''],
      ['b1', 'x; ; z'],
      ['b2', 'confirmed; ; confirmed'],
      ['second section', 'S'],
      ['late', 'L'],
    ])
    expect(await shown('legacy')).toEqual([
      ['late', 'L'],
      ['second section', 'S'],
      ['same', 'A, C, D'],
      ['same', 'True'],
      ['M', 'r1 / c1: 11\nr1 / c3: 13\nr2 / c1: 21'],
      ['b1', 'z'],
      ['b2', 'True'],
    ])
  })
})

describe('the cell of a question with several answers', () => {
  const part = (id: string, text: string) => ({ id: text, question: { id } })
  const file = (id: string, name: string) => ({
    ...part(id, name),
    name,
    content_type: 'text/plain',
    size: 1,
  })
  const signature = (id: string, signer_name: string) => ({
    ...{ ...part(id, signer_name), signer_name, signed_at: '2026-01-01T00:00:00Z', image: 'inline' as const },
  })

  const ends = (repeated: string, signatures: string) => [
    ...[
      ['empty', ''],
      ['choices', 'B, mine'],
    ],
    ...[
      ['repeated', repeated],
      ['signatures', signatures],
    ],
  ]
  const flat = [
    ['files', 'a, b'],
    ['M - r1 - c1', 'x; y'],
    ['M - r2 - c1', ''],
    ['M - r1 - c2', ''],
    ['M - r2 - c2', 'z'],
    ['ticks', 'confirmed; '],
  ]
  const legacy = [
    ['files', 'a, b'],
    ['M', 'r1 / c1: y\nr2 / c2: z'],
    ['ticks', 'False'],
  ]

  it.each<[Version, string[][]]>([
    ['v2.1', [...flat, ...ends('e; f', 'g; h')]],
    ['legacy', [...legacy, ...ends('f', 'h')]],
  ])('has all of them in v2.1, the last one else: %s', async (version, expected) => {
    const { control } = emulator
    const form = control.addForm({
      name: `Several (${version})`,
      questions: [
        { type: 'file', text: 'files' },
        { type: 'matrix', text: 'M', rows: ['r1', 'r2'], columns: ['c1', 'c2'] },
        { type: 'checkbox', text: 'ticks' },
        { type: 'short_text', text: 'empty' },
        { type: 'multiple_choice', text: 'choices', choices: ['A', 'B'] },
        {
          type: 'repeated_block',
          text: 'block',
          members: [
            { type: 'file', text: 'repeated' },
            { type: 'signature', text: 'signatures' },
          ],
        },
      ],
    })
    const [files, matrix, ticks, empty, choices, , repeated, signatures] = form.questions
    const [row1, row2] = matrix!.rows!
    const [column1, column2] = matrix!.columns!
    const cell = (row: typeof row1, column: typeof row1, answer_text: string | null) => ({
      ...{ question: { id: matrix!.id }, row: row!, column: column!, answer_text },
    })
    const answer = (question: typeof files, answer_text: string | null, ...chosen: number[]) => ({
      ...{ id: 'x', question: { id: question!.id, text: '' }, answer_text },
      answer_choices: chosen.map((at) => ({ question_choice: question!.choices[at]! })),
    })
    const patient = control.createPatient({ first_name: 'A', last_name: 'B' }).id
    const nothing = { packet: null, document: null, message: null, packet_response: null }
    const world = control.world()
    const { id } = openResponse(world, { patient, form: form.id, ...nothing })
    world.responses.update(id, (old) => ({
      ...old,
      files: [
        ...['a', 'b'].map((name) => file(files!.id, name)),
        ...['e', 'f'].map((name) => file(repeated!.id, name)),
      ],
      e_signatures: ['g', 'h'].map((name) => signature(signatures!.id, name)),
      matrix_cells: [
        ...[cell(row1, column1, 'x'), cell(row1, column1, 'y'), cell(row2, column2, 'z')],
        ...[cell(row2, column1, null), cell(row1, column2, '')],
      ],
      answers: [
        ...[answer(ticks, 'true'), answer(ticks, 'false'), answer(empty, null), answer(empty, '')],
        answer(choices, 'mine', 1),
      ],
    }))
    const { titles, rows } = await sheetOf(caller, form.name, version)
    expect(titles.slice(7).map((title, at) => [title, rows[0]!.slice(7)[at]])).toEqual(expected)
  })
})
