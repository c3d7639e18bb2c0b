/**
 * Exports of a form's answers (specification, section 4.5): the entries of their list, which cannot be fetched by id.
 * Their files are read and loaded elsewhere (extract/exports, load/exports).
 */
import { formName } from './parts/form-name.ts'
import { column, type Stream, text, time } from './stream.ts'

export const formExports: Stream = {
  name: 'exports',
  list: 'exports',
  one: null,
  reading: { kind: 'exports' },
  table: 'exports',
  columns: [text('name'), column('reference', 'form_id', 'form'), formName, time('created_at')],
  children: [],
  // Orders the states of an entry, and has no column.
  otherFields: ['updated_at'],
}
