/** An answer whose question was deleted keeps its place in every notation of answers. */
import { expect, it } from 'vitest'
import { shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'

const answer = (id: string, question: string | null, text: string) => ({
  ...{ id, question: question === null ? null : { id: question, text: 'Q' } },
  ...{ answer_text: text, answer_choices: null },
})

it('by question id, answers without a question are those of the empty id, one or several', () => {
  const written = (...answers: readonly object[]) =>
    shapeNamed('answers-object', '1').record({ id: 'r', answers }, { resource: 'responses', inList: false })
  const shown = (id: string, text: string, question_text: string | null) => ({
    ...{ id, question_text, answer_text: text, answer_choices: null },
  })
  const [asked, first, second] = [answer('a', 'q', 'x'), answer('b', null, 'y'), answer('c', null, 'z')]
  expect(written(asked, first)).toEqual({
    id: 'r',
    answers: { q: shown('a', 'x', 'Q'), '': shown('b', 'y', null) },
  })
  expect(written(first, asked, second)).toEqual({
    id: 'r',
    answers: { '': [shown('b', 'y', null), shown('c', 'z', null)], q: shown('a', 'x', 'Q') },
  })
})
