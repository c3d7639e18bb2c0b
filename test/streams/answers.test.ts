/** Whatever answers a response holds, in whichever shape: none is lost, none is made up, and their order stays. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalText } from '../../src/core/canonical.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import type { Cell } from '../../src/streams/parts/cell.ts'
import { responses } from '../../src/streams/responses.ts'
import { naughtyText } from '../core/naughty.ts'

const text = fc.oneof(naughtyText, fc.constantFrom('Never', 'yes', '7', '2024-02-29', ''))

/** A choice in some way of writing it, and the text it was given. */
const choice = fc.oneof(
  text.map((chosen) => ({ value: chosen as unknown, chosen })),
  fc.tuple(text, fc.constantFrom('text_value', 'text', 'label')).map(([chosen, name]) => ({
    value: { id: 'c', [name]: chosen },
    chosen,
  })),
  text.map((chosen) => ({ value: { id: 'x', question_choice: { id: 'c', text_value: chosen } }, chosen })),
)

/** An answer as it comes, and the texts that must be found of it, in order. */
const answer = fc
  .record({
    choices: fc.array(choice, { maxLength: 4 }),
    free: fc.oneof(
      text,
      fc.constant(null),
      fc.integer(),
      fc.boolean(),
      fc.dictionary(fc.string(), fc.string()),
    ),
    question: fc.constantFrom(null, 'q', { id: 'q', text: 'Q' }, { uid: 7 }),
    noChoices: fc.constantFrom([], null),
  })
  .map(({ choices, free, question, noChoices }) => {
    const chosen = choices.map((each) => each.chosen)
    const said = free === null ? null : typeof free === 'string' ? free : canonicalText(free)
    const texts = said === null || (said === '' && chosen.length > 0) ? chosen : [...chosen, said]
    return {
      value: {
        question,
        answer_text: free,
        answer_choices: choices.length === 0 ? noChoices : choices.map((each) => each.value),
      },
      texts,
    }
  })

/** Position, place of the value and text of each row of `response_answers`. */
function rowsOf(answers: unknown): { rows: readonly (readonly [Cell, Cell, Cell])[]; problems: number } {
  const { children, problems } = mapRecord(responses, { id: 'r', answers } as JsonObject, [])
  return {
    rows: children[0]!.map((row) => [row[0]!, row[1]!, row[6]!] as const),
    problems: problems.length,
  }
}

const expectedRows = (answers: readonly { readonly texts: readonly Cell[] }[]) =>
  answers.flatMap(({ texts }, at) =>
    (texts.length === 0 ? [null] : texts).map((value, place) => [String(at + 1), String(place + 1), value]),
  )

describe('an answer of any content', () => {
  test('in a list leaves one row a value, in the order of the list', () => {
    fc.assert(
      fc.property(fc.array(answer, { maxLength: 8 }), (answers) => {
        const { rows, problems } = rowsOf(answers.map((each) => each.value))
        expect(rows).toEqual(expectedRows(answers))
        expect(problems).toBe(0)
      }),
    )
  })

  test('under the ids of questions leaves the same rows, several to a question too', () => {
    fc.assert(
      fc.property(fc.array(fc.array(answer, { minLength: 1, maxLength: 3 }), { maxLength: 5 }), (groups) => {
        const keyed = Object.fromEntries(
          groups.map((group, at) => [
            `q${at}`,
            group.length === 1 ? group[0]!.value : group.map((each) => each.value),
          ]),
        )
        expect(rowsOf(keyed).rows).toEqual(expectedRows(groups.flat()))
      }),
    )
  })
})

test('answers of any JSON at all never throw; each is a row, or is kept in a problem', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue(), { maxLength: 6 }), (answers) => {
      const { rows } = rowsOf(answers)
      const { problems } = mapRecord(responses, { id: 'r', answers } as JsonObject, [])
      const positions = new Set(rows.map(([position]) => Number(position)))
      answers.forEach((value, at) => {
        const isNothing = value === null || (typeof value === 'object' && Object.keys(value).length === 0)
        const isKept = positions.has(at + 1) || problems.some((problem) => problem.path === `answers[${at}]`)
        // An empty list is nothing to one reader and no answer to another: either way nothing is lost.
        expect(isKept || isNothing, JSON.stringify(value)).toBe(true)
      })
      expect(rows.map(([position]) => Number(position))).toEqual(
        rows.map(([position]) => Number(position)).toSorted((a, b) => a - b),
      )
    }),
  )
})

test('matrix cells of any content are as many as came, in their order, however alike', () => {
  const cell = fc.record({
    row: fc.constantFrom('a', 'b', 0, null),
    answer_text: fc.constantFrom('Never', '', null),
  })
  const cells = fc.array(cell, { maxLength: 6 })
  fc.assert(
    fc.property(fc.array(cells, { maxLength: 4 }), cells, (nested, own) => {
      const answers = nested.map((matrix_cells) => ({ question: 'q', matrix_cells }))
      const { children } = mapRecord(responses, { id: 'r', answers, matrix_cells: own }, [])
      const all = [...nested.flat(), ...own]
      expect(children[1]!.map((row) => [row[0], row[6]])).toEqual(
        all.map(({ answer_text }, at) => [String(at + 1), answer_text]),
      )
    }),
  )
})

test('each choice that says nothing is a problem of its own, also after others', () => {
  const answers = [
    { question: 'q', answer_choices: [{ more: 1 }, { more: 2 }, [3]] },
    { question: 'r', answer_choices: [{ id: 'c' }, { more: 4 }] },
  ]
  const problem = (place: string, original: unknown) => ({
    ...{ path: `answers[${place}]`, reason: 'not a choice', original },
  })
  expect(mapRecord(responses, { id: 'x', answers }, []).problems).toEqual([
    problem('0].answer_choices[0', { more: 1 }),
    problem('0].answer_choices[1', { more: 2 }),
    problem('0].answer_choices[2', [3]),
    problem('1].answer_choices[1', { more: 4 }),
  ])
})
