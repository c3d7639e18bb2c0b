/**
 * Responses (specification, section 2.4): what clients submitted, with answers, matrix cells, files and e-signatures.
 * Their inner shape is not shown; it is read in every shape that such data has been seen in.
 */
import { isObject } from '../core/json.ts'
import { formName } from './parts/form-name.ts'
import { matrixCells } from './parts/matrix-cells.ts'
import { responseAnswers } from './parts/response-answers.ts'
import { cleansedResponse } from './parts/response-cleansing.ts'
import { responseFiles, responseSignatures } from './parts/response-files.ts'
import { CELL_FIELDS, FILE_FIELDS, SIGNATURE_FIELDS } from './parts/response-parts.ts'
import { column, type Stream, time } from './stream.ts'

export const responses: Stream = {
  name: 'responses',
  source: 'response',
  list: 'responses',
  one: 'response',
  reading: { kind: 'windows', parameter: 'submitted_after', field: 'submitted_at' },
  table: 'responses',
  columns: [
    column('reference', 'patient_id', 'patient'),
    column('reference', 'form_id', 'form'),
    formName,
    column('reference', 'packet_id', 'packet'),
    column('reference', 'document_id', 'document'),
    column('boolean', 'is_submitted'),
    column('boolean', 'is_skipped'),
    column('boolean', 'is_archived'),
    time('submitted_at'),
    time('created_at'),
    time('updated_at'),
  ],
  children: [responseAnswers, matrixCells, responseFiles, responseSignatures],
  otherFields: ['answers', ...CELL_FIELDS, ...FILE_FIELDS, ...SIGNATURE_FIELDS],
  // A service that leaves out what is empty leaves it out by id too: such a record is whole once it was fetched.
  isSummary: (record) => !('answers' in record),
  isOrdered: ({ answers }) => isObject(answers),
  cleanse: cleansedResponse,
}
