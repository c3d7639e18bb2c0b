/**
 * Generates the answers to a form or a document.
 *
 * Invariant: every question that asks something has at least one answer entry with its current text; the answers depend
 * only on the draw. `full` answers everything, with several choices where allowed and repeated blocks; `sparse` answers
 * as little as possible, with every checkbox blank.
 */
import { stamp } from '../../clock.ts'
import type { Draw } from '../draw.ts'
import type {
  Answer,
  Answers,
  AskedQuestion,
  Choice,
  Document,
  ESignature,
  Form,
  MatrixCell,
  Question,
  ResponseFile,
} from '../records.ts'
import { CELL_TEXTS, FILES, LONG_TEXTS, NUMBERS, SHORT_TEXTS } from './vocabulary.ts'

export interface Filling {
  readonly draw: Draw
  /** The id of the n-th part of this response. */
  readonly id: (nth: number) => string
  /** When it is filled in, in microseconds. */
  readonly at: number
  readonly signer: () => string
  readonly manner: 'full' | 'sparse' | 'mixed'
  /** Number of questions to answer; all by default. */
  readonly until?: number
}

export const NO_ANSWERS: Answers = { answers: [], matrix_cells: [], files: [], e_signatures: [] }

interface Sheet extends Filling {
  readonly answers: Answer[]
  readonly cells: MatrixCell[]
  readonly files: ResponseFile[]
  readonly signatures: ESignature[]
  nth: number
}

export function fillForm(form: Form, filling: Filling): Answers {
  const sheet = open(filling)
  const blocks = new Set<string>()
  const until = filling.until ?? form.questions.length
  for (const [index, question] of form.questions.entries()) {
    if (index >= until) break
    const { block } = question
    if (block === undefined || !isRepeated(form, block)) answerOne(sheet, question)
    else if (!blocks.has(block)) {
      blocks.add(block)
      const members = form.questions.filter((one) => one.block === block)
      for (let times = repetitions(sheet); times > 0; times -= 1) {
        for (const member of members) answerOne(sheet, member)
      }
    }
  }
  if (filling.manner === 'mixed' && filling.draw.chance(0.03)) {
    // An answer whose question was deleted from the form.
    give(sheet, null, 'left over', null)
  }
  return close(sheet)
}

export function fillDocument(document: Document, filling: Filling): Answers {
  const sheet = open(filling)
  for (const { id, name, label, field_type } of document.input_fields) {
    const question = { id, text: label || name }
    if (field_type === 'signature' || field_type === 'initials') sign(sheet, question)
    else if (field_type === 'checkbox') give(sheet, question, String(ticked(sheet)))
    else give(sheet, question, field_type === 'date' ? day(sheet.draw) : sheet.draw.pick(SHORT_TEXTS))
  }
  return close(sheet)
}

function open({ draw, id, at, signer, manner }: Filling): Sheet {
  // Written out for speed: millions of these are created, and a spread costs more than the rest.
  return { draw, id, at, signer, manner, answers: [], cells: [], files: [], signatures: [], nth: 0 }
}

function close({ answers, cells, files, signatures }: Sheet): Answers {
  return { answers, matrix_cells: cells, files, e_signatures: signatures }
}

const byBlock = new WeakMap<Form, ReadonlyMap<string, Question>>()

/** True for a repeated block; members of a table are ordinary questions. */
function isRepeated(form: Form, block: string): boolean {
  let questions = byBlock.get(form)
  if (questions === undefined) {
    questions = new Map(form.questions.map((question) => [question.id, question]))
    byBlock.set(form, questions)
  }
  return questions.get(block)?.question_type.question_type === 'repeated_block'
}

function repetitions({ draw, manner }: Sheet): number {
  if (manner === 'full') return 2 + draw.below(2)
  return manner === 'sparse' ? 1 : 1 + draw.below(3)
}

function ticked({ draw, manner }: Sheet): boolean {
  return manner === 'full' || (manner === 'mixed' && draw.chance(0.7))
}

/** True if the question stays unanswered. */
function leftOut({ draw, manner }: Sheet): boolean {
  return manner === 'mixed' ? draw.chance(0.1) : manner === 'sparse' && draw.chance(0.5)
}

function answerOne(sheet: Sheet, question: Question): void {
  const give = GIVERS[question.question_type.question_type]
  give?.(sheet, question)
}

type Giver = (sheet: Sheet, question: Question) => void

const texts =
  (make: (draw: Draw) => string): Giver =>
  (sheet, question) =>
    give(sheet, asked(question), leftOut(sheet) ? null : make(sheet.draw))

/** Answers by question type; other types ask nothing. */
const GIVERS: Readonly<Record<string, Giver>> = {
  short_text: texts((draw) => draw.pick(SHORT_TEXTS)),
  long_text: texts((draw) => draw.pick(LONG_TEXTS)),
  number: texts((draw) => draw.pick(NUMBERS)),
  date: texts(day),
  time: texts((draw) => `${two(draw.below(24))}:${two(draw.below(60))}`),
  datetime: texts((draw) => `${day(draw)}T${two(draw.below(24))}:${two(draw.below(60))}:00Z`),
  checkbox: (sheet, question) => give(sheet, asked(question), String(ticked(sheet))),
  single_choice: (sheet, question) => choose(sheet, question, 1),
  multiple_choice: (sheet, question) => {
    const least = sheet.manner === 'full' ? 2 : 1
    choose(sheet, question, least + sheet.draw.below(Math.max(1, question.choices.length - least)))
  },
  matrix: fillTable,
  file: (sheet, question) => {
    give(sheet, asked(question), null)
    if (leftOut(sheet)) return
    const file = sheet.draw.pick(FILES)
    const size = 1 + sheet.draw.below(5_000_000)
    sheet.files.push({ id: next(sheet), question: { id: question.id }, ...file, size })
  },
  signature: (sheet, question) => sign(sheet, asked(question)),
}

function choose(sheet: Sheet, question: Question, count: number): void {
  const { choices } = question
  const none = choices.length === 0 || leftOut(sheet)
  const start = none ? 0 : sheet.draw.below(choices.length)
  const chosen = none ? [] : pickFrom(choices, start, Math.min(count, choices.length))
  // This choice can have an explanation.
  const ownText = !none && chosen.some(({ text_value }) => text_value === 'Other') ? 'my own' : null
  give(sheet, asked(question), ownText, chosen)
}

/** `count` neighbours from `start` on, cyclically, in the order of the form. */
function pickFrom(choices: readonly Choice[], start: number, count: number): Choice[] {
  return choices.filter((_, index) => (index - start + choices.length) % choices.length < count)
}

function fillTable(sheet: Sheet, question: Question): void {
  give(sheet, asked(question), null)
  const { rows = [], columns = [] } = question
  const oneOf = question.question_type.question_subtype === 'single_choice'
  for (const row of rows) {
    const chosen = oneOf && columns.length > 0 ? [sheet.draw.pick(columns)] : columns
    for (const column of chosen) {
      if (!oneOf && leftOut(sheet)) continue
      const answer_text = oneOf ? column.text : sheet.draw.pick(CELL_TEXTS)
      sheet.cells.push({ question: { id: question.id }, row, column, answer_text })
    }
  }
}

function sign(sheet: Sheet, question: AskedQuestion): void {
  give(sheet, question, null)
  if (leftOut(sheet)) return
  sheet.signatures.push({
    id: next(sheet),
    question: { id: question.id },
    signed_at: stamp(sheet.at),
    signer_name: sheet.signer(),
    image: sheet.draw.chance(0.5) ? 'inline' : 'stored',
  })
}

function give(
  sheet: Sheet,
  question: AskedQuestion | null,
  answer_text: string | null,
  choices: readonly Choice[] | null = [],
): void {
  const answer_choices = choices?.map((question_choice) => ({ question_choice })) ?? null
  sheet.answers.push({ id: next(sheet), question, answer_text, answer_choices })
}

function next(sheet: Sheet): string {
  sheet.nth += 1
  return sheet.id(sheet.nth)
}

function asked({ id, text }: Question): AskedQuestion {
  return { id, text }
}

function day(draw: Draw): string {
  return `${1950 + draw.below(75)}-${two(1 + draw.below(12))}-${two(1 + draw.below(28))}`
}

function two(number: number): string {
  return String(number).padStart(2, '0')
}
