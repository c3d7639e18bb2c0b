/**
 * Packet responses (specification, sections 2.8, 3.2 and 6): the progress of a packet. Only webhooks deliver them; the
 * service has no path to fetch one.
 *
 * Invariant: `activity` distinguishes the set-up of a packet from actions of its patient.
 */
import type { JsonObject } from '../core/json.ts'
import { parseInstant } from '../core/time.ts'
import { type Cell, readCell } from './parts/cell.ts'
import { itemsOf } from './parts/parts.ts'
import { type Child, type Column, column, type Related, reference, type Stream, time } from './stream.ts'

const activity: Column = {
  name: 'activity',
  type: 'text',
  from: [],
  read({ is_submitted, form_index }) {
    if (readCell('boolean', is_submitted, 'is_submitted', []) === 't') return 'submitted'
    return Number(readCell('integer', form_index, 'form_index', []) ?? 0) > 0 ? 'progress' : 'setup'
  },
}

const members: Child = {
  table: 'packet_response_members',
  parent: 'packet_response_id',
  columns: ['position', 'response_id'],
  references: { response_id: 'responses' },
  rows: (record, problems) =>
    itemsOf(record.responses, 'responses', problems)
      .filter((item) => item.value !== '')
      .map((item): Cell[] => [String(item.position), readCell('reference', item.value, item.path, problems)]),
}

/** Submission changes every member, including unanswered ones: only the member itself has `is_skipped`. */
function stampedMembers(record: JsonObject): Related | null {
  if (readCell('boolean', record.is_submitted, 'is_submitted', []) !== 't') return null
  const ids = members.rows(record, []).flatMap(([, id]) => (typeof id === 'string' ? [id] : []))
  const { submitted_at } = record
  const since = typeof submitted_at === 'string' ? parseInstant(submitted_at) : null
  return ids.length === 0 ? null : { stream: 'responses', ids: [...new Set(ids)], since }
}

export const packetResponses: Stream = {
  name: 'packet_responses',
  source: 'packet_response',
  list: null,
  one: null,
  table: 'packet_responses',
  columns: [
    reference('packet_id', 'packets', 'packet'),
    column('boolean', 'is_submitted'),
    time('submitted_at'),
    column('boolean', 'is_archived'),
    column('integer', 'form_index'),
    column('boolean', 'is_queued'),
    activity,
    time('created_at'),
    time('updated_at'),
  ],
  children: [members],
  otherFields: ['responses'],
  analysts: { views: ['packet_progress'] },
  isSummary: (record) => !('is_submitted' in record),
  changes: stampedMembers,
}
