/**
 * Responses with their answers, matrix cells, files and e-signatures (specification, sections 2.4 and 4.4), and exports
 * of a form's answers as CSV or JSON (sections 2.5 and 4.5). Of their fields, the specification shows `is_skipped` only.
 *
 * Invariant: changes nothing at the service, so the POST of an export is retried like a GET; every call goes through the
 * client's shared request budget. `streamExport` never has the whole file in memory.
 */
import { z } from 'zod'
import type { Answer, Client, StreamOptions } from '../client.ts'
import type { Streamed } from '../http/read-stream.ts'
import { DEFAULT_BODY_KEYS } from '../paths.ts'
import {
  type CallOptions,
  type FilterOptions,
  getById,
  type ListOptions,
  list,
  listFiltered,
  type RecordAnswer,
  type TypedScan,
} from './resource.ts'
import { Id, identified, Optional, Reference } from './typed.ts'

const Flag = z.boolean().nullish()

/** The question that something answers: its id, or an object that may hold its text. */
const QuestionReference = z.union([Id, z.looseObject({ ...identified, text: Optional })]).nullish()

/** A row or column of a matrix: its id, text or index, or an object. */
const Heading = z.union([Id, z.looseObject({ ...identified, text: Optional })]).nullish()

const Chosen = z.union([Id, z.looseObject({ ...identified, text_value: Optional, text: Optional })])

/** A choice that was made: bare, or under `question_choice`. */
export const AnswerChoice = z.union([
  Id,
  z.looseObject({ ...identified, question_choice: Chosen.nullish(), text_value: Optional, text: Optional }),
])

export const MatrixCell = z.looseObject({
  ...identified,
  question: QuestionReference,
  row: Heading,
  column: Heading,
  answer_text: Optional,
})

/** `url` runs out after a while. */
export const ResponseFile = z.looseObject({
  ...identified,
  question: QuestionReference,
  name: Optional,
  content_type: Optional,
  size: z.union([z.number(), z.string()]).nullish(),
  url: Optional,
})

/** `image` is a link or a `data:` URL. */
export const ESignature = z.looseObject({
  ...identified,
  question: QuestionReference,
  signed_at: Optional,
  signer_name: Optional,
  image: Optional,
})

const cells = z.array(MatrixCell).nullish()
const files = z.array(ResponseFile).nullish()
const signatures = z.array(ESignature).nullish()

/** Cells, files and signatures under each name they have been seen with; in the response, or in an answer. */
const parts = {
  matrix_cells: cells,
  matrix_answers: cells,
  matrix: cells,
  files,
  uploads: files,
  attachments: files,
  e_signatures: signatures,
  esignatures: signatures,
  signatures,
}

export const ResponseAnswer = z.looseObject({
  ...identified,
  question: QuestionReference,
  question_id: Id.nullish(),
  answer_text: z.union([z.string(), z.number(), z.boolean()]).nullish(),
  answer_choices: z.array(AnswerChoice).nullish(),
  ...parts,
})

export const Response = z.looseObject({
  ...identified,
  form_id: Id.nullish(),
  form_name: Optional,
  form: Reference,
  packet_id: Id.nullish(),
  packet: Reference,
  document_id: Id.nullish(),
  document: Reference,
  patient_id: Id.nullish(),
  patient: Reference,
  created_at: Optional,
  updated_at: Optional,
  submitted_at: Optional,
  is_submitted: Flag,
  /** True: passed over by packet logic, not filled in by the patient. */
  is_skipped: Flag,
  is_archived: Flag,
  /** Absent in the summaries that a list may hold; an object is keyed by the question's id. */
  answers: z.union([z.array(ResponseAnswer), z.record(z.string(), z.unknown())]).nullish(),
  ...parts,
})

export type Response = z.infer<typeof Response>

/** An entry of the list of exports. */
export const Export = z.looseObject({
  ...identified,
  name: Optional,
  form: Reference,
  form_id: Id.nullish(),
  form_name: Optional,
  created_at: Optional,
})

export type Export = z.infer<typeof Export>

/** One client's row, keyed by column title: of columns with the same title, one only is there. */
const Row = z.record(z.string(), z.unknown())

/** What `type=json` may answer. Titles repeat, so only `raw_text` and `download_file` surely hold every column. */
export const ExportContent = z.union([
  z.array(Row),
  z.looseObject({ headers: z.array(z.string()), rows: z.array(z.union([Row, z.array(z.unknown())])) }),
  z.looseObject({ data: z.array(Row) }),
])

export type ExportContent = z.infer<typeof ExportContent>

/** Ids and dates; whether the dates' bounds are inclusive, and in which zone a day is meant, is not shown. */
export interface ResponseFilters {
  readonly patient?: string
  readonly form?: string
  readonly packet?: string
  /** `YYYY-MM-DD`, as the next two. */
  readonly submitted_on?: string
  readonly submitted_after?: string
  readonly submitted_before?: string
}

/**
 * `GET /v2/responses` (section 4.4): pages of responses, which may be summaries without `answers`. Rows must be
 * checked against `filters` by the caller.
 */
export function listResponses(client: Client, options?: FilterOptions<ResponseFilters>): TypedScan<Response> {
  return listFiltered(client, 'responses', 'responses', Response, options)
}

/** `GET /v2/responses/{id}` (section 4.4): one response, whole; verdict `gone` when there is none of this id. */
export function getResponse(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<RecordAnswer<Response>> {
  return getById(client, 'response', Response, id, options)
}

/** `GET /v2/export-csv` (section 4.5): pages of the exports available to the team. */
export function listExports(client: Client, options?: ListOptions): TypedScan<Export> {
  return list(client, 'exports', 'exports', Export, options)
}

/**
 * `POST /v2/export-csv?type=json` (section 4.5): one export as JSON, in any shape (`ExportContent` has the known ones).
 * JSON may lack one of several columns with the same title; `streamExport` returns all columns. Throws `ApiError`:
 * `gone` if the id is unknown, `dead_letter` if the id is refused.
 */
export function readExport(client: Client, id: string, options: CallOptions = {}): Promise<Answer> {
  return client.request('POST', client.paths.exports, { ...options, ...exportRequest(client, id, 'json') })
}

/**
 * `POST /v2/export-csv` (section 4.5): one export as CSV, `raw_text` or `download_file`, as a stream of bytes. The text
 * may also be one JSON string (`content-type` is then `application/json`), with or without a byte order mark. Throws as
 * `readExport`. The stream fails with an `ApiError`: verdict `retry` if it is cut off, `dead_letter` beyond `maxBytes`.
 * Read the stream to its end or destroy it: until then it counts towards the client's `concurrency`.
 */
export function streamExport(
  client: Client,
  id: string,
  type: 'raw_text' | 'download_file',
  options: CallOptions & Pick<StreamOptions, 'maxBytes'> = {},
): Promise<Streamed> {
  return client.stream('POST', client.paths.exports, { ...options, ...exportRequest(client, id, type) })
}

/** The body has the id under `bodyKeys.exportId` (default `id`). */
function exportRequest(client: Client, id: string, type: string) {
  return {
    query: { type },
    body: { [client.bodyKeys.exportId ?? DEFAULT_BODY_KEYS.exportId]: id },
    read: true,
    one: true,
  }
}
