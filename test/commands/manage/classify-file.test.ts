/** The words of decisions, as people write them. */
import { expect, it } from 'vitest'
import type { Question } from '../../../src/analytics/classify.ts'
import { listText } from '../../../src/commands/manage/classify-actions.ts'
import { csvOf, visibility, visibilityIn } from '../../../src/commands/manage/classify-file.ts'

it.each([
  ['visible', ['visible', 'Shown', 'show', 'TRUE', ' yes ', 'everything']],
  ['structured', ['structured', 'by type', 'By-Type', 'type']],
  ['hidden', ['hidden', 'hide', 'false', 'No', 'nothing']],
] as const)('%s has these words', (decided, words) => {
  expect(words.map(visibility)).toEqual(words.map(() => decided))
})

it.each(['', 'maybe', 'visible!', 'not shown'])('%j is none of them', (word) => {
  expect(() => visibilityIn(word, 'row 3 of FILE')).toThrow(
    expect.objectContaining({
      code: 'definition_invalid',
      message: expect.stringContaining('in row 3 of FILE is none'),
    }),
  )
})

const question = (more: Partial<Question>): Question =>
  ({
    ...{
      team: 't',
      form: 'Form',
      form_id: 'f',
      question_text: 'Why?',
      question_type: 'number',
      question_id: 'q',
    },
    ...{ shows: 'structured', decided_by: 'type', waits: false, concept: null, ...more },
  }) as Question

it('a list has every fact of a question, as a table and on a narrow terminal, where a form is named once', () => {
  const questions = [
    question({ concept: 'reason' }),
    question({ question_id: 'q2', decided_by: null, shows: 'nothing' }),
    question({ form: null, question_id: 'q3', waits: true, decided_by: 'person' }),
  ]
  const text = (columns?: number) => {
    const stdout = { write: () => true, ...(columns === undefined ? {} : { isTTY: true, columns }) }
    const signal = new AbortController().signal
    const context = { env: { NO_COLOR: '1' }, stdout, stderr: stdout, signal, version: '' }
    return listText(context, questions)
      .replace(/(?<=\S) {2,}/g, '  ')
      .trimEnd()
      .split('\n')
  }
  expect(text()).toEqual([
    'form  question  text  type  shows  decided by  concept',
    'Form  q  Why?  number  structured  type  reason',
    'Form  q2  Why?  number  nothing  new or changed',
    'f  q3  Why?  number  structured  reworded: waits',
  ])
  expect(text(50)).toEqual([
    ...['Form', '  Why?', '    number · shows structured · type · reason', '    q'],
    ...['  Why?', '    number · shows nothing · new or changed', '    q2'],
    ...['f', '  Why?', '    number · shows structured · reworded: waits', '    q3'],
  ])
})

it('only what a person decided is filled in, and a question that waits is marked', () => {
  const rows = csvOf([
    question({ question_text: 'a', decided_by: 'person', shows: 'everything' }),
    question({ question_text: 'b', decided_by: 'person' }),
    question({ question_text: 'c', decided_by: 'person', shows: 'nothing', concept: 'd' }),
    question({ question_text: 'd', waits: true, form: null }),
    question({ question_text: 'd', form_id: 'g' }),
    question({ question_text: ' e', team: 'u' }),
    question({ question_text: 'e ', team: 'u', question_id: 'q2' }),
    question({ question_text: ' ', question_id: 'q3' }),
  ])
  expect(rows.split('\r\n')).toEqual([
    'team,form,question_text,question_type,shows,waits,visibility,concept,question_id',
    't,Form,a,number,everything,,visible,,',
    't,Form,b,number,structured,,structured,,',
    't,Form,c,number,nothing,,hidden,d,',
    't,f,d,number,structured,yes,,,',
    't,Form,d,number,structured,,,,',
    'u,Form, e,number,structured,,,,q',
    'u,Form,e ,number,structured,,,,q2',
    't,Form, ,number,structured,,,,q3',
    '',
  ])
})
