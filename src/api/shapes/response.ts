/**
 * A response with its answers, matrix cells, files and e-signatures (specification, section 2.4, which shows no more
 * than `is_skipped`), and exports of responses (sections 2.5 and 4.5, which show neither).
 */
import { z } from 'zod'
import { Id, identified, Optional, Reference } from './record.ts'

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
