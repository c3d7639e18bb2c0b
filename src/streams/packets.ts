/**
 * Packets (specification, section 2.3): forms sent together.
 *
 * Forms come as ids or as whole records.
 */
import { type Cell, readCell } from './parts/cell.ts'
import { itemsOf } from './parts/parts.ts'
import { type Child, type Stream, text, time } from './stream.ts'

const forms: Child = {
  table: 'packet_forms',
  parent: 'packet_id',
  columns: ['position', 'form_id'],
  references: { form_id: 'forms' },
  rows: (record, problems) =>
    itemsOf(record.forms, 'forms', problems)
      .filter((item) => item.value !== '')
      .map((item): Cell[] => [String(item.position), readCell('reference', item.value, item.path, problems)]),
}

export const packets: Stream = {
  name: 'packets',
  source: 'packet',
  list: { name: 'packets', path: '/v2/packets' },
  one: { name: 'packet', path: '/v2/packets/{id}' },
  table: 'packets',
  columns: [text('name'), text('text'), time('created_at'), time('updated_at')],
  children: [forms],
  otherFields: ['forms'],
  safeNames: ['forms', 'form', 'form_id'],
  analysts: { views: ['packet_progress'] },
  isSummary: (record) => !('forms' in record),
}
