/**
 * Responses (specification, section 2.4): what clients submitted, with answers, matrix cells, files and e-signatures.
 * Their inner shape is not shown; it is read in every shape that such data has been seen in.
 */
import { isObject } from '../core/json.ts'
import { matrixCells } from './parts/matrix-cells.ts'
import { formName } from './parts/parts.ts'
import { responseAnswers } from './parts/response-answers.ts'
import { cleansedResponse } from './parts/response-cleansing.ts'
import {
  CELL_FIELDS,
  FILE_FIELDS,
  responseFiles,
  responseSignatures,
  SIGNATURE_FIELDS,
} from './parts/response-parts.ts'
import { safeResponsePath } from './parts/response-paths.ts'
import { column, reference, type Stream, time } from './stream.ts'

export const responses: Stream = {
  name: 'responses',
  source: 'response',
  list: { name: 'responses', path: '/v2/responses' },
  one: { name: 'response', path: '/v2/responses/{id}' },
  reading: { kind: 'windows', parameter: 'submitted_after', field: 'submitted_at' },
  table: 'responses',
  columns: [
    reference('patient_id', 'patients', 'patient'),
    reference('form_id', 'forms', 'form'),
    formName,
    reference('packet_id', 'packets', 'packet'),
    reference('document_id', 'documents', 'document'),
    column('boolean', 'is_submitted'),
    column('boolean', 'is_skipped'),
    column('boolean', 'is_archived'),
    time('submitted_at'),
    time('created_at'),
    time('updated_at'),
  ],
  children: [responseAnswers, matrixCells, responseFiles, responseSignatures],
  otherFields: ['answers', ...CELL_FIELDS, ...FILE_FIELDS, ...SIGNATURE_FIELDS],
  safePath: safeResponsePath,
  settledBy: 'is_submitted',
  analysts: { views: ['responses', 'answers', 'matrix_answers'] },
  // A service that leaves out what is empty leaves it out by id too: such a record is whole once it was fetched.
  isSummary: (record) => !('answers' in record),
  isOrdered: ({ answers }) => isObject(answers),
  cleanse: cleansedResponse,
}
