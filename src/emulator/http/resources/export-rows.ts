/**
 * The rows of an export: one per client, in the order of the list of responses.
 *
 * Invariant: a row is built when it is sent, from the current response and client, and is not stored; records deleted
 * meanwhile are omitted. Other requests are served between two batches.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { readStamp } from '../../clock.ts'
import { groupBy } from '../../shapes/shape.ts'
import { findIndexes } from '../../world/find-responses.ts'
import type {
  Answer,
  Answers,
  ESignature,
  Form,
  MatrixCell,
  Response,
  ResponseFile,
} from '../../world/records.ts'
import type { Person } from '../../world/seeded/make-patient.ts'
import { seededHead } from '../../world/seeded/open-seed.ts'
import type { Head } from '../../world/seeded/seed.ts'
import type { World } from '../../world/world.ts'
import type { ExportTable } from '../answer.ts'
import { type Column, columnsOf, LEADING_TITLES, type Style } from './export-columns.ts'

/** Cells of a batch: a few milliseconds of work. */
const BATCH = 4000

/** `idText` formats the id of a client in the current shape. */
export function exportOf(
  world: World,
  form: Form,
  style: Style,
  idText: (id: string) => string,
): ExportTable {
  const columns = columnsOf(form, style)
  const titles = [...LEADING_TITLES, ...columns.map(({ title }) => title)]
  const size = Math.max(1, Math.floor(BATCH / titles.length))
  const rowOf = (response: Response, client: Person) => {
    const sheet = sheetOf(response)
    return [
      ...[idText(client.id), client.first_name, client.last_name, client.email ?? ''],
      ...[
        time(sentAt(world, response)),
        time(response.submitted_at),
        response.is_archived ? 'True' : 'False',
      ],
      ...columns.map((column) => cellOf(column, sheet, style)),
    ]
  }
  async function* rows() {
    const indexes = await latestOfEachClient(world, form.id)
    for (let from = 0; from < indexes.length; from += size) {
      if (from > 0) await turn()
      const batch: string[][] = []
      for (const index of indexes.slice(from, from + size)) {
        const response = world.responses.at(index)
        const client = response === undefined ? null : world.person(response.patient)
        if (response !== undefined && client !== null) batch.push(rowOf(response, client))
      }
      if (batch.length > 0) yield batch
    }
  }
  return { titles, rows: rows() }
}

function sentAt({ messages }: World, { message, created_at }: Response): string {
  return (message === null ? null : messages.get(message)?.sent_at) ?? created_at
}

/** A stamp as exports write it: UTC without a zone, and without a fraction if it is zero. */
function time(stamp: string | null): string {
  return stamp === null ? '' : stamp.replace('T', ' ').replace('Z', '')
}

/** Responses looked at before other requests are served. */
const TURN = 4000

/**
 * Selects the response of each client that the export of a form shows: indexes of responses in the order of the list.
 *
 * Invariant: at most one response per client: the one submitted last or, if none is submitted, the last open one in
 * list order; never a skipped one. Memory is one index per client. Other requests are served in between.
 */
async function latestOfEachClient(world: World, form: string): Promise<number[]> {
  const chosen = new Map<number, number>()
  const submitted = new Map<number, number>()
  const indexes = await findIndexes(world, { form })
  for (const [nth, index] of indexes.entries()) {
    if (nth % TURN === TURN - 1) await turn()
    const head = headAt(world, index)
    if (head.skipped) continue
    const time = head.submitted ?? -1
    if (time < (submitted.get(head.patient) ?? -1)) continue
    chosen.set(head.patient, index)
    submitted.set(head.patient, time)
  }
  return [...chosen.values()].sort((a, b) => a - b)
}

function headAt(
  { responses, patients, seed }: World,
  index: number,
): Pick<Head, 'patient' | 'submitted' | 'skipped'> {
  const touched: Response | undefined = responses.touched().get(index)
  if (touched === undefined) return seededHead(seed, index)
  return {
    patient: patients.ids.indexOf(touched.patient) ?? -1,
    submitted: touched.submitted_at === null ? null : (readStamp(touched.submitted_at) ?? null),
    skipped: touched.is_skipped,
  }
}

/** The answers of a response by question id. */
interface Sheet {
  readonly answers: ReadonlyMap<string | undefined, readonly Answer[]>
  readonly cells: ReadonlyMap<string, readonly MatrixCell[]>
  readonly files: ReadonlyMap<string, readonly ResponseFile[]>
  readonly signatures: ReadonlyMap<string, readonly ESignature[]>
}

function sheetOf({ answers, matrix_cells, files, e_signatures }: Answers): Sheet {
  return {
    answers: groupBy(answers, ({ question }) => question?.id),
    cells: groupBy(matrix_cells, ({ question }) => question.id),
    files: groupBy(files, ({ question }) => question.id),
    signatures: groupBy(e_signatures, ({ question }) => question.id),
  }
}

/**
 * The text of one cell, from the answers of the response; empty without an answer. Of several answers, as in a repeated
 * block, the flat style shows all, joined with a semicolon and a space, a missing answer as an empty text; the legacy style
 * shows the last.
 */
function cellOf(column: Column, sheet: Sheet, style: Style): string {
  const { id, question_type } = column.question
  switch (question_type.question_type) {
    case 'matrix': {
      const cells = sheet.cells.get(id) ?? []
      const { cell } = column
      if (cell === undefined) return linesOf(cells)
      const here = cells.filter((one) => one.row.id === cell.row && one.column.id === cell.column)
      return joined(
        here.map(({ answer_text }) => answer_text ?? ''),
        style,
      )
    }
    case 'file': {
      const names = (sheet.files.get(id) ?? []).map(({ name }) => name)
      return column.repeated ? joined(names, style) : names.join(', ')
    }
    case 'signature':
      return joined(
        (sheet.signatures.get(id) ?? []).map(({ signer_name }) => signer_name),
        style,
      )
    case 'checkbox':
      return joined(
        (sheet.answers.get(id) ?? []).map(({ answer_text }) => tick(answer_text, style)),
        style,
      )
    default:
      return joined((sheet.answers.get(id) ?? []).map(textOf), style)
  }
}

function joined(values: readonly string[], style: Style): string {
  if (style === 'legacy' || values.length < 2) return values.at(-1) ?? ''
  return values.some((value) => value !== '') ? values.join('; ') : ''
}

/** The chosen texts, then the free text. */
function textOf({ answer_text, answer_choices }: Answer): string {
  if (answer_choices === null || answer_choices.length === 0) return answer_text ?? ''
  const chosen = answer_choices.map(({ question_choice }) => question_choice.text_value)
  return (answer_text ? [...chosen, answer_text] : chosen).join(', ')
}

function tick(text: string | null, style: Style): string {
  if (style === 'flat') return text === 'true' ? 'confirmed' : ''
  if (text === 'true') return 'True'
  return text === 'false' ? 'False' : ''
}

/** A table in one cell: a line per non-empty cell; of a cell with several answers, the last. */
function linesOf(cells: readonly MatrixCell[]): string {
  const lines = new Map<string, string>()
  for (const { row, column, answer_text } of cells) {
    const place = `${row.id}/${column.id}`
    if (answer_text) lines.set(place, `${row.text} / ${column.text}: ${answer_text}`)
    else lines.delete(place)
  }
  return [...lines.values()].join('\n')
}
