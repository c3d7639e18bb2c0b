/** The choices of a FHIR item, wherever a questionnaire has them, and the texts and points of each. */
import { describe, expect, it } from 'vitest'
import { isFhir, listOf, optionsOf, textOf } from '../../../src/emulator/imports/fhir-answers.ts'

describe('a value of a questionnaire', () => {
  it('is text as it is, a time in ISO 8601, other values as JSON, and empty text where it is missing', () => {
    const values = ['x', '', 7, false, { a: [1] }, new Date(0), null, undefined]
    expect(values.map(textOf)).toEqual([
      ...['x', '', '7', 'false', '{"a":[1]}', '1970-01-01T00:00:00.000Z', '', ''],
    ])
  })

  it('is a list of objects, an empty one where it is missing, or refused', () => {
    const items = [{ a: 1 }, {}]
    expect([listOf(items), listOf([]), listOf(null), listOf(undefined)]).toEqual([items, [], [], []])
    for (const value of [{}, 'x', 0, false]) expect(() => listOf(value)).toThrow('where a list is expected')
    for (const value of [[1], [{}, null], [[]]])
      expect(() => listOf(value)).toThrow('where an object is expected')
    expect([{}, [], null, 'x', undefined].map(isFhir)).toEqual([true, false, false, false, false])
  })
})

describe('the choices of an item', () => {
  it('are its options, in both notations, by their first value', () => {
    const answerOption = [
      { valueString: 'Yes', valueCoding: { code: 'n' } },
      { valueInteger: 7 },
      { valueCoding: { code: 'c', display: 'Shown' } },
      { valueCoding: { code: 'only-code' } },
      { valueReference: { reference: 'Patient/1' } },
      { value: { Coding: { code: 'old', display: 'Older' } } },
      { value: 'bare' },
      { initialSelected: true, othervalueString: 'not a value', valued: 'nor this' },
      {},
    ]
    const option = [{ valueDate: '2026-01-02' }]
    expect(optionsOf({ answerOption, option }, {})).toEqual([
      { text_value: 'Yes' },
      { text_value: '7' },
      { text_value: 'Shown', code: 'c' },
      { text_value: 'only-code', code: 'only-code' },
      { text_value: 'Patient/1' },
      { text_value: 'Older', code: 'old' },
      { text_value: 'bare' },
      { text_value: '' },
      { text_value: '' },
      { text_value: '2026-01-02' },
    ])
  })

  it('have the points of the option, else of its coding, in the first extension that is known for them', () => {
    const points = (end: string, value: object) => ({ extension: [{ url: `http://x/${end}`, ...value }] })
    const ends = ['ordinalValue', 'itemWeight', 'valueset-ordinalValue', 'codesystem-ordinalValue']
    const answerOption = [...ends, 'extension-score'].map((end, at) => ({
      ...points(end, at % 2 === 0 ? { valueDecimal: at / 2 } : { valueInteger: at }),
      valueString: end,
    }))
    expect(optionsOf({ answerOption }, {}).map((one) => one.points)).toEqual([0, 1, 1, 3, 2])
    const coding = { code: 'c', ...points('itemWeight', { valueDecimal: 4 }) }
    const others = [
      { valueCoding: coding },
      { valueCoding: coding, ...points('itemWeight', { valueDecimal: 5 }) },
      { valueString: 'x', ...points('itemWeight', { valueDecimal: '6' }) },
      { valueString: 'x', ...points('itemWeights', { valueDecimal: 6 }) },
      { valueString: 'x', ...points('note', { valueDecimal: 6 }) },
    ]
    const several = [
      ...points('note', { valueDecimal: 9 }).extension,
      ...points('itemWeight', { valueDecimal: 7 }).extension,
      ...points('ordinalValue', { valueDecimal: 8 }).extension,
    ]
    const first = { valueString: 'x', extension: several }
    expect(optionsOf({ answerOption: [...others, first] }, {})).toEqual([
      { text_value: 'c', code: 'c', points: 4 },
      { text_value: 'c', code: 'c', points: 5 },
      ...Array(3).fill({ text_value: 'x' }),
      { text_value: 'x', points: 7 },
    ])
  })

  it('are those of a contained set, by its id or its address, expanded if it is', () => {
    const contains = [{ code: 'a', contains: [{ code: 'b', display: 'B' }] }, { code: 'c' }]
    const include = [{ concept: [{ code: 'd' }] }, {}, { concept: [{ code: 'e', display: 'E' }] }]
    const questionnaire = {
      contained: [
        { compose: { include: [{ concept: [{ code: 'nameless' }] }] } },
        { id: 'expanded', expansion: { contains }, compose: { include } },
        { id: 'composed', expansion: { contains: [] }, compose: { include } },
        { id: 'empty', url: 'http://x/set', compose: { include } },
        { id: 'bare' },
      ],
    }
    const expanded = [
      { text_value: 'a', code: 'a' },
      { text_value: 'B', code: 'b' },
      { text_value: 'c', code: 'c' },
    ]
    const composed = [
      { text_value: 'd', code: 'd' },
      { text_value: 'E', code: 'e' },
    ]
    for (const [item, expected] of [
      [{ answerValueSet: '#expanded' }, expanded],
      [{ options: { reference: '#composed' } }, composed],
      [{ options: '#composed', answerValueSet: '#expanded' }, expanded],
      [{ answerValueSet: 'http://x/set' }, composed],
      [{ answerValueSet: '#bare' }, []],
      [{ answerValueSet: '#' }, []],
      [{ answerValueSet: '#undefined' }, []],
      [{ answerValueSet: 'expanded' }, []],
      [{ answerValueSet: '' }, []],
      [{ options: {} }, []],
      [{}, []],
      [{ answerOption: [], answerValueSet: '#expanded' }, expanded],
      [{ answerOption: [{ valueString: 'x' }], answerValueSet: '#expanded' }, [{ text_value: 'x' }]],
    ] as const)
      expect([item, optionsOf(item, questionnaire)]).toEqual([item, expected])
    expect(optionsOf({ answerValueSet: '#expanded' }, {})).toEqual([])
  })
})
