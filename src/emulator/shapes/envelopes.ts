/** Envelopes of lists. Each contains all rows of the page. */
import type { Page } from '../http/answer.ts'
import type { ShapePart } from './shape.ts'

const linkHeader = ({ next }: Page) => (next === null ? {} : { headers: { link: `<${next}>; rel="next"` } })

export const ENVELOPES = {
  'bare-array': {
    matter: 'envelope',
    summary: 'a list is one JSON array with all rows, unless the caller requests a page',
    paging: { style: 'whole' },
    envelope: ({ rows }) => ({ value: rows }),
  },
  'link-header': {
    matter: 'envelope',
    summary: 'a page is a JSON array; the next page is in a Link header',
    envelope: (page) => ({ value: page.rows, ...linkHeader(page) }),
  },
  'no-count': {
    matter: 'envelope',
    summary: 'a page has no count',
    envelope: ({ next, previous, rows }) => ({ value: { next, previous, results: rows } }),
  },
  'data-envelope': {
    matter: 'envelope',
    summary: 'rows are in `data`',
    envelope: ({ count, next, previous, rows }) => ({ value: { data: rows, count, next, previous } }),
  },
  'items-envelope': {
    matter: 'envelope',
    summary: 'rows are in `items`',
    envelope: ({ count, next, previous, rows }) => ({ value: { items: rows, count, next, previous } }),
  },
  'resource-envelope': {
    matter: 'envelope',
    summary: 'rows are in a field named after the resource',
    envelope: ({ resource, count, next, previous, rows }) => ({
      value: { count, next, previous, [resource]: rows },
    }),
  },
} satisfies Record<string, ShapePart>
