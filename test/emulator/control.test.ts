/** The control of an emulator gives what it creates ids and stamps of its own. */
import { expect, it } from 'vitest'
import { startEmulator } from '../../src/emulator/server.ts'
import { placeQuestions } from '../../src/emulator/world/seeded/make-form.ts'

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
