/**
 * Formats of exports and their list. Each contains all rows; objects keyed by title lose the cells of repeated titles.
 */
import type { JsonRecord } from '../http/answer.ts'
import { type ShapePart, without } from './shape.ts'

export const EXPORTS = {
  'export-form-id': {
    matter: 'export-form',
    summary: 'an export names its form by form_id and form_name',
    record: (record, { resource }) => {
      if (resource !== 'exports') return record
      const form = record.form as JsonRecord
      return { ...without(record, 'form'), form_id: form.id, form_name: form.name }
    },
  },
  'export-json-data': {
    matter: 'export-json',
    summary: 'an export as JSON has its rows in `data`',
    flags: ['export-json-data'],
  },
  'export-json-rows': {
    matter: 'export-json',
    summary: 'an export as JSON is {headers, rows}, its rows arrays',
    flags: ['export-json-rows'],
  },
  'raw-text-csv': {
    matter: 'raw-text',
    summary: 'raw_text comes as text/csv',
    flags: ['raw-text-csv'],
  },
  'raw-text-quoted': {
    matter: 'raw-text',
    summary: 'raw_text comes as one JSON string',
    flags: ['raw-text-quoted'],
  },
  'raw-text-bom': {
    matter: 'raw-text-bom',
    summary: 'raw_text and the file to download begin with a byte order mark',
    flags: ['raw-text-bom'],
  },
} satisfies Record<string, ShapePart>
