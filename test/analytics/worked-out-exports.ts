/** The expected answer of query 20: cells of exports compared with answers, from the emulator's own records. */
import { exportOf } from '../../src/emulator/http/resources/export-rows.ts'
import type { Form, Question, Response } from '../../src/emulator/world/records.ts'
import type { World } from '../../src/emulator/world/world.ts'
import { all, type Line } from './grouped.ts'

const SHOWN = new Set(['single_choice', 'multiple_choice', 'number', 'checkbox'])

export async function exportsAndAnswers(world: World, name: string): Promise<Line[]> {
  const forms = all<Form>(world.forms).filter((form) => form.name === name)
  return (await Promise.all(forms.map((form) => ofForm(world, form)))).flat()
}

async function ofForm(world: World, form: Form): Promise<Line[]> {
  const cells = await cellsByTitle(world, form)
  const responses = all<Response>(world.responses).filter((each) => each.form === form.id)
  return form.questions.flatMap((question) => {
    // A column is matched to a question by its title, if that identifies one.
    const isAlone = form.questions.filter(({ text }) => text === question.text).length === 1
    const filled = isAlone && SHOWN.has(question.question_type.question_type) ? cells.get(question.text) : 0
    const patients = new Set(
      responses.filter((each) => answers(each, question)).map(({ patient }) => patient),
    )
    return filled && patients.size > 0
      ? [{ question: question.text, cells: filled, patients: patients.size }]
      : []
  })
}

async function cellsByTitle(world: World, form: Form): Promise<ReadonlyMap<string, number>> {
  const { titles, rows } = exportOf(world, form, 'flat', (id) => id)
  const cells = new Map<string, number>()
  for await (const batch of rows)
    for (const row of batch)
      for (const [at, cell] of row.entries())
        if (cell !== '') cells.set(titles[at]!, (cells.get(titles[at]!) ?? 0) + 1)
  return cells
}

function answers(response: Response, question: Question): boolean {
  return response.answers.some(
    (answer) =>
      answer.question?.id === question.id && (answer.answer_text || (answer.answer_choices ?? []).length > 0),
  )
}
