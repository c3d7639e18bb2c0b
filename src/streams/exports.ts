/**
 * Exports of a form's answers (specification, section 4.5): the entries of their list, which cannot be fetched by id.
 * Their files are read and loaded elsewhere (extract/reading, load/exports).
 */
import { formName } from './parts/parts.ts'
import { reference, type Stream, text, time } from './stream.ts'

export const formExports: Stream = {
  name: 'exports',
  list: { name: 'exports', path: '/v2/export-csv' },
  one: null,
  reading: {
    kind: 'files',
    rowsOf: 'responses',
    tables: [
      { table: 'export_columns', key: ['position'], columns: ['position', 'title', 'question_id'] },
      {
        table: 'export_rows',
        key: ['row_number'],
        columns: [
          ...['row_number', 'client_id', 'first_name', 'last_name', 'email'],
          ...['sent_at', 'completed_at', 'archived'],
        ],
      },
      {
        table: 'export_cells',
        key: ['row_number', 'position'],
        columns: ['row_number', 'position', 'value'],
      },
    ],
  },
  table: 'exports',
  columns: [text('name'), reference('form_id', 'forms', 'form'), formName, time('created_at')],
  children: [],
  // Orders the states of an entry, and has no column.
  otherFields: ['updated_at'],
  analysts: { views: ['export_answers'] },
}
