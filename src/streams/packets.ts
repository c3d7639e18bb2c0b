/** Packets (specification, section 2.3): forms sent together. */
import { type Cell, readCell } from './parts/cell.ts'
import { itemsOf } from './parts/parts.ts'
import { type Child, type Stream, text, time } from './stream.ts'

const forms: Child = {
  table: 'packet_forms',
  parent: 'packet_id',
  columns: ['position', 'form_id'],
  rows: (record, problems) =>
    itemsOf(record.forms, 'forms', problems)
      .filter((item) => item.value !== '')
      .map((item): Cell[] => [String(item.position), readCell('reference', item.value, item.path, problems)]),
}

export const packets: Stream = {
  name: 'packets',
  source: 'packet',
  list: 'packets',
  one: 'packet',
  table: 'packets',
  columns: [text('name'), text('text'), time('created_at'), time('updated_at')],
  children: [forms],
  otherFields: ['forms'],
  isSummary: (record) => !('forms' in record),
}
