/** The control of an emulator: ids and stamps of what it creates, its time, and its teams. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startEmulator } from '../../src/emulator/server.ts'
import { placeQuestions } from '../../src/emulator/world/seeded/make-form.ts'
import { callerOf } from './caller.ts'
import { stillClock } from './still-clock.ts'

it('each form that is added has ids that no other form, question or choice has', async () => {
  await using emulator = await startEmulator({ port: 0, patients: 2 })
  const { control } = emulator
  const questions = ['Q', 'R'].map((text) => ({ type: 'single_choice', text, choices: ['a', 'b'] }) as const)
  const added = ['First', 'Second', 'Third'].map((name) => control.addForm({ name, questions }))
  const forms = control.world().forms.slice(0, 1_000)
  for (const form of added) expect(forms).toContainEqual(form)
  const ids = forms.flatMap((form) => [
    form.id,
    ...form.questions.flatMap(({ id, choices }) => [id, ...choices.map((choice) => choice.id)]),
  ])
  expect(new Set(ids).size).toBe(ids.length)
})

it('ids of the questions of an added form depend on its team, its place among the forms, and nothing else', async () => {
  await using emulator = await startEmulator({ port: 0, patients: 2 })
  const { control } = emulator
  const questions = ['Q', 'R'].map((text) => ({ type: 'single_choice', text, choices: ['a', 'b'] }) as const)
  const { key, forms } = control.world()
  for (const name of ['First', 'Second']) {
    const at = forms.end
    const added = control.addForm({ name, questions })
    expect(forms.at(at)).toEqual(added)
    expect(added.questions).toEqual(placeQuestions({ questions }, key, at))
  }
})

it('changing a record that does not exist or belongs to another team is refused, and changes nothing', async () => {
  await using emulator = await startEmulator({ port: 0, patients: 2 })
  const { control, environments } = emulator
  const [own, other] = environments[0]!.teams.map(({ name }) => name)
  const { patients, forms } = control.world(other)
  const [patient, form] = [patients.at(0)!, forms.at(0)!]
  const question = form.questions[0]!.id
  for (const id of [patient.id, form.id, 'x'])
    for (const act of [
      ...[() => control.updatePatient(id, { city: 'Ulm' }), () => control.deletePatient(id)],
      ...[() => control.renameForm(id, 'N'), () => control.renameQuestion(id, question, 'N', own)],
      () => control.deleteForm(id),
    ])
      expect(act).toThrow(new RangeError('no such record'))
  expect(() => control.renameQuestion(form.id, 'x', 'N', other)).toThrow(new RangeError('no such question'))
  expect([patients.at(0), forms.at(0), control.world().forms.touched().size]).toEqual([patient, form, 0])
})

it('a renamed form or question has the time of its change, and every other question stays', async () => {
  await using emulator = await startEmulator({ port: 0, patients: 2, clock: stillClock })
  const { control } = emulator
  const questions = ['Q', 'R', 'S'].map((text) => ({ type: 'short_text', text }) as const)
  const added = control.addForm({ name: 'Old', text: 'About', questions })
  control.advance(1000)
  const renamed = control.renameForm(added.id, 'New')
  expect(renamed).toEqual({ ...added, name: 'New', updated_at: control.world().now() })
  control.advance(1000)
  const [first, second, third] = added.questions
  expect(control.renameQuestion(added.id, second!.id, 'Reworded')).toEqual({
    ...{ ...renamed, updated_at: control.world().now() },
    questions: [first, { ...second, text: 'Reworded' }, third],
  })
  expect([added.created_at, added.text, control.addForm({ name: 'Bare' })]).toMatchObject([
    ...[added.updated_at, 'About', { text: '', enabled: true, questions: [] }],
  ])
})

it('time is advanced by nothing or more, up to the last time that a stamp can show', async () => {
  await using emulator = await startEmulator({ port: 0, patients: 1, clock: stillClock })
  const { control } = emulator
  const now = () => control.world().now()
  const end = Date.parse('2255-01-01T00:00:00Z')
  const start = Date.parse(now())
  for (const milliseconds of [-1, Number.NaN, Number.POSITIVE_INFINITY, end - start])
    expect(() => control.advance(milliseconds)).toThrow('the clock cannot be moved so far')
  control.advance(0)
  expect(Date.parse(now())).toBe(start)
  control.advance(0.0014)
  expect(now()).toBe(`${new Date(start).toISOString().slice(0, 19)}.000001Z`)
  control.advance(end - start - 1)
  expect(now()).toBe('2254-12-31T23:59:59.999001Z')
  const send = (body: unknown) => callerOf(emulator).send('POST', '/_control/faults', body, {})
  for (const body of ['7', '{}', { faults: 7 }, 'null'])
    expect((await send(body)).body).toEqual({ detail: 'Send {"faults": "name=probability,…"}.' })
})

it('a clock that is wrong is advanced as far as its own time can be shown', async () => {
  await using emulator = await startEmulator({ port: 0, patients: 1, clock: stillClock })
  const { control } = emulator
  const left = Date.parse('2255-01-01T00:00:00Z') - Date.parse(control.world().now())
  control.setFaults('clock-skew=3600')
  expect(() => control.advance(left - 3_600_000)).toThrow('the clock cannot be moved so far')
  control.advance(left - 3_600_001)
  expect(control.world().now()).toBe('2254-12-31T23:59:59.999000Z')
  // Without the fault it is right again.
  control.setFaults('slow=0.5')
  expect(control.world().now()).toBe('2254-12-31T22:59:59.999000Z')
})

it('there are two teams in each environment, and credentials and imports are those of the first', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'emulator-teams-'))
  const importPatients = join(folder, 'people.csv')
  writeFileSync(importPatients, 'first,last\nOnly,One\n')
  await using emulator = await startEmulator({
    ...{ port: 0, patients: 2, responses: 2, apiKey: 'key', apiSecret: 'secret', importPatients },
  })
  rmSync(folder, { recursive: true })
  const { environments, imported, control } = emulator
  expect(environments.map(({ name, teams }) => [name, ...teams.map((team) => team.name)])).toEqual([
    ['production', 'Riverside Clinic', 'Harbour Practice'],
    ['sandbox', 'Riverside Clinic (sandbox)', 'Harbour Practice (sandbox)'],
  ])
  const teams = environments.flatMap((environment) => environment.teams)
  expect([teams[0]!.api_key, teams[0]!.api_secret]).toEqual(['key', 'secret'])
  expect(new Set(teams.flatMap(({ api_key, api_secret }) => [api_key, api_secret])).size).toBe(8)
  expect(imported).toMatchObject({ patients: 1, forms: 0, responses: 0 })
  const first = teams.map(({ name }) => control.world(name).patients.at(0)!.last_name)
  expect(first.map((name) => name === 'One')).toEqual([true, false, false, false])
})
