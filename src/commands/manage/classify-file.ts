/**
 * Decisions as a CSV file: what `classify list --csv` writes, and `classify import` reads.
 *
 * Invariant: a question is named by its form and text, so that a file fits another warehouse with the same forms; by its id
 * only where form and text do not name it alone. Importing the file that was listed decides nothing anew.
 */
import { readFile } from 'node:fs/promises'
import { InvalidArgumentError } from 'commander'
import { parse } from 'csv-parse/sync'
import { stringify } from 'csv-stringify/sync'
import type { Question, Visibility } from '../../analytics/classify.ts'
import { UsageError } from '../../core/errors.ts'

/** A row of a file; missing columns are absent, empty cells empty. */
export interface DecisionRow {
  readonly question_id?: string
  readonly question_text?: string
  readonly visibility?: string
  readonly form?: string
  readonly team?: string
  readonly concept?: string
}

const WORDS = { everything: 'visible', structured: 'structured', nothing: 'hidden' } as const

/** `visibility` is empty unless a person decided: to be filled in. */
export function csvOf(questions: readonly Question[]): string {
  const named = new Map<string, number>()
  for (const question of questions) named.set(nameOf(question), (named.get(nameOf(question)) ?? 0) + 1)
  return stringify(
    questions.map((question) => ({
      team: question.team,
      form: question.form ?? question.form_id,
      question_text: question.question_text,
      question_type: question.question_type,
      shows: question.shows,
      waits: question.waits ? 'yes' : '',
      visibility: question.decided_by === 'person' ? WORDS[question.shows] : '',
      concept: question.concept,
      question_id:
        (question.question_text ?? '').trim() !== '' && named.get(nameOf(question)) === 1
          ? ''
          : question.question_id,
    })),
    { header: true, columns: COLUMNS, record_delimiter: 'windows' },
  )
}

const COLUMNS = [
  ...[
    'team',
    'form',
    'question_text',
    'question_type',
    'shows',
    'waits',
    'visibility',
    'concept',
    'question_id',
  ],
]

function nameOf({ team, form, form_id, question_text }: Question): string {
  return JSON.stringify([team, form ?? form_id, (question_text ?? '').trim()])
}

/** Throws `UsageError`, which does not quote the file. */
export async function readDecisions(file: string): Promise<readonly DecisionRow[]> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw new UsageError(
      `FILE cannot be read (${code})`,
      'check the path and its permissions',
      'FILE',
      'file_unreadable',
    )
  }
  try {
    const rows = parse(text, {
      bom: true,
      columns: true,
      skip_empty_lines: true,
      trim: true,
    }) as DecisionRow[]
    const [first] = rows
    if (first === undefined) return rows
    const names = first.question_id !== undefined || first.question_text !== undefined
    if (names && first.visibility !== undefined) return rows
  } catch {
    // Its message quotes the file.
  }
  throw new UsageError(
    'FILE is not a CSV file with the columns question_text (or question_id) and visibility',
    'name the columns in its first line: form,question_text,visibility,concept,team or question_id,visibility; classify list --csv writes such a file',
    'FILE',
    'definition_invalid',
  )
}

/** The words are those of `classify list` too: everything, structured, nothing. */
export function visibility(text: string): Visibility {
  const word = text.trim().toLowerCase()
  if (['visible', 'shown', 'show', 'true', 'yes', 'everything'].includes(word)) return 'visible'
  if (['structured', 'by type', 'by-type', 'type'].includes(word)) return 'structured'
  if (['hidden', 'hide', 'false', 'no', 'nothing'].includes(word)) return 'hidden'
  throw new InvalidArgumentError('Use visible or hidden, or structured for what its type shows.')
}

export function visibilityIn(text: string, place: string): Visibility {
  try {
    return visibility(text)
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error
    throw new UsageError(
      `the visibility in ${place} is none of visible, structured and hidden`,
      error.message,
      'FILE',
      'definition_invalid',
    )
  }
}
