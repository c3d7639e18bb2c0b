/**
 * Imports a survey as CSV: a form of its titles, a client and a response per row.
 *
 * Invariant: the n-th cell of the m-th row is exactly the answer of the m-th client to the n-th question; an
 * empty cell is an unanswered question. Titles can repeat or be empty; if a row is longer than the titles, the
 * additional questions have no text. Blank lines are ignored.
 */
import { basename, extname } from 'node:path'
import { type Options, parse } from 'csv-parse'
import { parse as parseAtOnce } from 'csv-parse/sync'
import { stamp } from '../clock.ts'
import { NO_FIELDS, type PatientFields } from '../http/resources/patient-body.ts'
import type { IdSpace } from '../world/draw.ts'
import { Draw, type Key, keyOf } from '../world/draw.ts'
import type { Form } from '../world/records.ts'
import { placeQuestions } from '../world/seeded/make-form.ts'
import { makeTimes } from '../world/seeded/make-patient.ts'
import { FIRST_NAMES, LAST_NAMES } from '../world/seeded/vocabulary.ts'
import { readText } from './read-text.ts'

export interface ImportedSurvey {
  readonly form: (ids: IdSpace, key: Key, index: number) => Form
  readonly questions: number
  readonly clients: readonly PatientFields[]
  /** Cells of each client's response, in the order of the questions. */
  readonly rows: readonly (readonly string[])[]
}

const READING = {
  record_delimiter: ['\r\r\n', '\r\n', '\n', '\r'],
  relax_column_count: true,
  relax_quotes: true,
  skip_empty_lines: true,
} satisfies Options

/** Reads `file`. Throws an error with the reason if it has no titles or ends inside a cell. */
export async function importSurvey(file: string): Promise<ImportedSurvey> {
  const text = readText(file)
  const rows: string[][] = []
  for await (const row of parse(text, { ...READING, delimiter: delimiterOf(text) })) rows.push(row)
  const titles = rows.shift()
  if (titles === undefined) throw new Error('is empty: it has no header line')
  const width = rows.reduce((widest, row) => Math.max(widest, row.length), titles.length)
  const questions = Array.from({ length: width }, (_, index) => ({
    type: 'short_text' as const,
    text: titles[index] ?? '',
  }))
  const name = basename(file, extname(file))
  return {
    form(ids, key, index) {
      const times = makeTimes(new Draw(key, index))
      const [created_at, updated_at] = [stamp(times.created), stamp(times.updated)]
      const laidOut = placeQuestions({ questions }, key, index)
      return {
        id: ids.idAt(index),
        name,
        text: '',
        enabled: true,
        created_at,
        updated_at,
        questions: laidOut,
      }
    },
    questions: width,
    clients: rows.map((_, index) => clientOf(name, index)),
    rows,
  }
}

/** An invented client: a survey contains only answers. */
function clientOf(survey: string, row: number): PatientFields {
  const draw = new Draw(keyOf('import-survey', survey), row)
  return {
    ...NO_FIELDS,
    external_id: `row ${row + 1}`,
    first_name: draw.pick(FIRST_NAMES),
    last_name: draw.pick(LAST_NAMES),
  }
}

const DELIMITERS = [',', ';', '\t'] as const
/** Rows to test a delimiter with. */
const SAMPLE = 20

/** The delimiter that splits most of the first rows into as many cells as the titles; the comma if several do. */
function delimiterOf(text: string): string {
  const guesses = DELIMITERS.map((delimiter) => {
    const [titles = [], ...rows] = begun(text, delimiter)
    const divided = rows.filter((row) => row.length > 1).length
    if (titles.length < 2 || (rows.length > 0 && divided * 2 <= rows.length)) {
      return { delimiter, fitting: 0, cells: 1 }
    }
    const fitting = rows.filter((row) => row.length === titles.length).length
    return { delimiter, fitting, cells: titles.length }
  })
  return guesses.reduce((best, one) =>
    one.fitting > best.fitting || (one.fitting === best.fitting && one.cells > best.cells) ? one : best,
  ).delimiter
}

/** The first rows split by `delimiter`; none if that leaves invalid quotes. */
function begun(text: string, delimiter: string): string[][] {
  try {
    return parseAtOnce(text, { ...READING, delimiter, to: SAMPLE + 1 })
  } catch {
    return []
  }
}
