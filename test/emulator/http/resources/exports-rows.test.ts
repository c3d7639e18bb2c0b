import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { openResponse } from '../../../../src/emulator/world/clinic-responses.ts'
import { type Caller, callerOf, type Loose } from '../../caller.ts'
import { time } from './expected-export.ts'
import { sheetOf } from './exporting.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 20, responses: 40 })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

describe('the rows of an export', () => {
  const { name, questions } = { name: 'Rows', questions: [{ type: 'short_text', text: 'Q' }] as const }
  const person = (first_name: string) => emulator.control.createPatient({ first_name, last_name: 'X' }).id
  const reply = (form: Loose, patient: string, text: string, then: 'submit' | 'leave' = 'submit') => {
    const { control } = emulator
    const asked = {
      patient,
      form: form.id,
      packet: null,
      document: null,
      message: null,
      packet_response: null,
    }
    const { id } = openResponse(control.world(), asked)
    control.staff().answer(id, { [form.questions[0].id]: text })
    if (then === 'submit') control.staff().submit(id)
    control.advance(1000)
    return id
  }

  it('show a client’s latest submission, else the last open response; include archived ones, but no deleted clients', async () => {
    const { control } = emulator
    const form = control.addForm({ name, questions })
    const [ann, bob, cleo, dan, eve] = ['Ann', 'Bob', 'Cleo', 'Dan', 'Eve'].map(person)
    reply(form, ann!, 'first')
    reply(form, bob!, 'submitted')
    reply(form, ann!, 'second')
    reply(form, bob!, 'open later', 'leave')
    reply(form, cleo!, 'open before', 'leave')
    reply(form, cleo!, 'open', 'leave')
    control.staff().archive(reply(form, dan!, 'archived'))
    reply(form, eve!, 'gone with her')
    const given = async () => {
      const { rows } = await sheetOf(caller, name)
      return rows.map(([, first, , , , completed, archived, cell]) => [
        first,
        completed !== '',
        archived,
        cell,
      ])
    }
    const rest = [
      ['Cleo', false, 'False', 'open'],
      ['Dan', true, 'True', 'archived'],
    ]
    const submitted = ['Bob', true, 'False', 'submitted']
    const second = ['Ann', true, 'False', 'second']
    expect(await given()).toEqual([submitted, second, ...rest, ['Eve', true, 'False', 'gone with her']])
    control.deletePatient(eve!)
    control.updatePatient(ann!, { first_name: 'Anna' })
    expect(await given()).toEqual([submitted, ['Anna', ...second.slice(1)], ...rest])
    control.deleteForm(form.id)
  })

  it('show when the message was sent, else when the response was created, in UTC without a zone', async () => {
    const { control } = emulator
    const form = control.addForm({ name, questions })
    const patient = person('Mia')
    const { id } = control.staff().send({ patient, form: form.id })
    control.advance(1000)
    await expect.poll(() => control.world().messages.get(id)?.status).toBe('sent')
    await expect.poll(async () => (await sheetOf(caller, name)).rows).toHaveLength(1)
    const other = reply(form, person('Nia'), 'x')
    const { rows } = await sheetOf(caller, name)
    const [mine, hers] = [control.world().messages.get(id)!, control.world().responses.get(other)!]
    expect(rows.map((row) => row.slice(4, 6))).toEqual([
      [time(mine.sent_at), ''],
      [time(hers.created_at), time(hers.submitted_at)],
    ])
    expect(rows[0]![4]).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?$/)
    control.deleteForm(form.id)
  })

  it('omit the fraction of a time without one', async () => {
    const { control } = emulator
    const form = control.addForm({ name, questions })
    const id = reply(form, person('Ole'), 'x')
    const whole = { created_at: '2026-01-02T03:04:05Z', submitted_at: '2026-01-02T03:04:06.000001Z' }
    control.world().responses.update(id, (old) => ({ ...old, ...whole }))
    expect((await sheetOf(caller, name)).rows[0]!.slice(4, 6)).toEqual([
      '2026-01-02 03:04:05',
      '2026-01-02 03:04:06.000001',
    ])
    control.deleteForm(form.id)
  })

  it('keep their answers under a question’s new text, and have no column for a deleted question', async () => {
    const { control } = emulator
    const two = [...questions, { type: 'short_text', text: 'R' }] as const
    const form = control.addForm({ name, questions: two })
    reply(form, person('Pia'), 'kept')
    control.renameQuestion(form.id, form.questions[0]!.id, 'Reworded')
    const before = await sheetOf(caller, name)
    expect(before.titles.slice(7)).toEqual(['Reworded', 'R'])
    expect(before.rows.map((row) => row.slice(7))).toEqual([['kept', '']])
    control.world().forms.update(form.id, (old) => ({ ...old, questions: old.questions.slice(1) }))
    const { titles, rows } = await sheetOf(caller, name)
    expect([titles.slice(7), rows.map((row) => row.slice(7))]).toEqual([['R'], [['']]])
    control.deleteForm(form.id)
  })
})
