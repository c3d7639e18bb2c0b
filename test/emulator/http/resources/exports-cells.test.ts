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
