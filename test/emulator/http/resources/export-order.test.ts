/** Which response and which order an export has where times, places or positions are the same, or questions are moved. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { openResponse } from '../../../../src/emulator/world/clinic-responses.ts'
import type { Form } from '../../../../src/emulator/world/records.ts'
import { type Caller, callerOf } from '../../caller.ts'
import { stillClock } from '../../still-clock.ts'
import { sheetOf, type Version } from './exporting.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, clock: stillClock, patients: 3, responses: 0 })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

const nothing = { packet: null, document: null, message: null, packet_response: null }
function answered(form: Form, patient: string, text: string, submits: boolean): string {
  const { control } = emulator
  const { id } = openResponse(control.world(), { ...nothing, patient, form: form.id })
  control.staff().answer(id, { [form.questions[0]!.id]: text })
  if (submits) control.staff().submit(id)
  return id
}

describe('an export', () => {
  it('has of responses that were submitted at the same moment the last one of the list, submitted ones before open ones', async () => {
    const { control } = emulator
    const form = control.addForm({ name: 'Same', questions: [{ type: 'short_text', text: 'Q' }] })
    const [ann, bob, cy] = control.world().patients.slice(0, 3)
    answered(form, ann!.id, 'first', true)
    answered(form, bob!.id, 'open', false)
    answered(form, ann!.id, 'second', true)
    answered(form, bob!.id, 'submitted', true)
    answered(form, cy!.id, 'open', false)
    answered(form, bob!.id, 'open again', false)
    const skipped = answered(form, cy!.id, 'skipped', true)
    const cells = async () => (await sheetOf(caller, 'Same')).rows.map((row) => [row[0], row.at(-1)])
    control.world().responses.update(skipped, (old) => ({ ...old, is_skipped: true }))
    expect(await cells()).toEqual([
      [ann!.id, 'second'],
      [bob!.id, 'submitted'],
      [cy!.id, 'open'],
    ])
    const removed = answered(form, ann!.id, 'third', true)
    expect((await cells())[2]).toEqual([ann!.id, 'third'])
    control.staff().remove(removed)
    expect(await cells()).toEqual([
      [ann!.id, 'second'],
      [bob!.id, 'submitted'],
      [cy!.id, 'open'],
    ])
  })

  it.each<[Version, string[]]>([
    ['v2.1', ['b', 'c', 'a', 'd', 'e']],
    ['legacy', ['e', 'd', 'c', 'b', 'a']],
  ])('has the columns of %s whatever the order of the questions in the form', async (version, expected) => {
    const { control } = emulator
    const name = `Moved ${version}`
    const questions = ['a', 'b', 'c', 'd', 'e'].map((text) => ({ type: 'short_text', text }) as const)
    const form = control.addForm({ name, questions })
    const places = {
      a: [1, 1, 2, 5],
      b: [1, 1, 1, 4],
      c: [1, 1, 2, 3],
      d: [1, 2, 1, 2],
      e: [2, 1, 1, 1],
    } as const
    for (const turn of [1, 2]) {
      control.world().forms.update(form.id, (old) => {
        const moved = old.questions.map((one) => {
          const [page, section, row, order] = places[one.text as 'a']
          return { ...one, page, section, row, order }
        })
        return { ...old, questions: turn === 1 ? moved : moved.toReversed() }
      })
      expect((await sheetOf(caller, name, version)).titles.slice(7)).toEqual(expected)
    }
  })

  it('joins the files of a question in a table as those of any other', async () => {
    const { control } = emulator
    const world = control.world()
    const form = control.addForm({
      name: 'Table',
      questions: [
        { type: 'matrix', text: 'M', rows: ['r'], columns: ['c'] },
        { type: 'file', text: 'F' },
      ],
    })
    const [matrix, file] = form.questions
    world.forms.update(form.id, (old) => ({ ...old, questions: [matrix!, { ...file!, block: matrix!.id }] }))
    const id = openResponse(world, { ...nothing, patient: world.patients.at(0)!.id, form: form.id }).id
    const part = (name: string) => ({
      id: name,
      question: { id: file!.id },
      name,
      content_type: 'x',
      size: 1,
    })
    const [row, column] = [matrix!.rows![0]!, matrix!.columns![0]!]
    const cells = ['first', ''].map((answer_text) => ({
      question: { id: matrix!.id },
      row,
      column,
      answer_text,
    }))
    world.responses.update(id, (old) => ({ ...old, files: ['a', 'b'].map(part), matrix_cells: cells }))
    const shown = async (version: Version) => (await sheetOf(caller, 'Table', version)).rows[0]!.slice(7)
    expect([await shown('v2.1'), await shown('legacy')]).toEqual([
      ['first; ', 'a, b'],
      ['', 'a, b'],
    ])
  })
})

it('a table whose rows or columns have the same text has a line for each cell, and none for one that was cleared', async () => {
  const { control } = emulator
  const world = control.world()
  const questions = [{ type: 'matrix', text: 'M', rows: ['r', 'r'], columns: ['c', 'c'] }] as const
  const form = control.addForm({ name: 'Alike', questions })
  const { id: question, rows = [], columns = [] } = form.questions[0]!
  const { id } = openResponse(world, { ...nothing, patient: world.patients.at(0)!.id, form: form.id })
  const cell = (row: number, column: number, answer_text: string | null) => ({
    ...{ question: { id: question }, row: rows[row]!, column: columns[column]!, answer_text },
  })
  const shown = async (...matrix_cells: ReturnType<typeof cell>[]) => {
    world.responses.update(id, (old) => ({ ...old, matrix_cells }))
    const cells = []
    for (const version of ['legacy', 'v2.1'] as const)
      cells.push((await sheetOf(caller, 'Alike', version)).rows[0]!.slice(7))
    return cells
  }
  expect(await shown(cell(0, 0, '1'), cell(1, 0, '2'), cell(0, 1, '3'), cell(1, 1, '4'))).toEqual([
    ['r / c: 1\nr / c: 2\nr / c: 3\nr / c: 4'],
    ['1', '2', '3', '4'],
  ])
  expect(await shown(cell(0, 0, '1'), cell(1, 1, 'x'), cell(1, 1, null), cell(0, 0, '5'))).toEqual([
    ['r / c: 5'],
    ['1; 5', '', '', 'x; '],
  ])
})

describe('a filter of days', () => {
  const DAYS = [
    '01-01T23:59:59.999',
    '01-02T00:00:00',
    '01-02T07:59:59.999',
    '01-02T08:00:00',
    '01-02T23:59:59.999',
    '01-03T00:00:00',
  ]
  const TIMES = [...DAYS, '01-03T07:59:59.999', '01-03T08:00:00', '01-04T00:00:00'].map(
    (time) => `2026-${time}Z`,
  )

  it.each<[string, string, number, number]>([
    ['default', 'submitted_on', 1, 5],
    ['default', 'submitted_after', 1, 9],
    ['default', 'submitted_before', 0, 5],
    ['bounds-exclusive', 'submitted_on', 1, 5],
    ['bounds-exclusive', 'submitted_after', 5, 9],
    ['bounds-exclusive', 'submitted_before', 0, 1],
    ['bounds-zone', 'submitted_on', 3, 7],
    ['bounds-zone', 'submitted_after', 3, 9],
    ['bounds-zone', 'submitted_before', 0, 7],
    ['bounds-zone+bounds-exclusive', 'submitted_on', 3, 7],
    ['bounds-zone+bounds-exclusive', 'submitted_after', 7, 9],
    ['bounds-zone+bounds-exclusive', 'submitted_before', 0, 3],
  ])('in the shape %s, %s, ends at midnight to the millisecond', async (shape, name, from, to) => {
    await using other = await startEmulator({ port: 0, patients: 1, responses: 0, shape })
    const world = other.control.world()
    const [patient, form] = [world.patients.at(0)!.id, world.forms.at(0)!.id]
    for (const submitted_at of TIMES) {
      const { id } = openResponse(world, { ...nothing, patient, form })
      world.responses.update(id, (old) => ({ ...old, submitted_at, is_submitted: true }))
    }
    openResponse(world, { ...nothing, patient, form })
    for (const day of ['2026-01-02', '2026-01-02T12:00:00Z', '2026-01-01T23:00:00-02:00']) {
      const rows = await callerOf(other).rows(`/v2/responses?${name}=${encodeURIComponent(day)}`)
      expect([day, rows.map((one) => one.submitted_at)]).toEqual([day, TIMES.slice(from, to)])
    }
  })
})
