/**
 * Ways to request pages, notations of lists, of `next` and of errors.
 *
 * Invariant: the rows of a list are the same in all of them.
 */
import type { Page } from '../http/answer.ts'
import type { ShapePart } from './shape.ts'

/** Envelopes of lists. Each contains all rows of the page. */
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

export const PAGES = {
  'limit-offset': {
    matter: 'paging',
    summary: 'pages are requested by limit and offset; past the end is an empty page',
    paging: { style: 'limit-offset' },
  },
  cursor: {
    matter: 'paging',
    summary: 'pages are requested by an opaque cursor; there is no page number',
    paging: { style: 'cursor' },
  },
  'cursor-400': {
    matter: 'paging',
    summary: 'as cursor, and a bad one answers 400',
    paging: { style: 'cursor', badCursor: 400 },
  },
  'next-relative': {
    matter: 'next',
    summary: '`next` is a path with a query',
    next: (url) => url.slice(new URL(url).origin.length),
  },
  'next-query': {
    matter: 'next',
    summary: '`next` is a query alone',
    next: (url) => new URL(url).search,
  },
  'next-http': {
    matter: 'next',
    summary: '`next` names the host behind the proxy, by http',
    next: (url) => url.replace(new URL(url).origin, 'http://intake-backend.internal'),
  },
  'next-no-port': {
    matter: 'next',
    summary: '`next` lacks the port',
    next: (url) => url.replace(new URL(url).host, new URL(url).hostname),
  },
  'empty-past-end': {
    matter: 'past-end',
    summary: 'a page past the end is 200 with no rows',
    paging: { pastEnd: 'empty' },
  },
  'page-size-ignored': {
    matter: 'page-size',
    summary: 'page_size and limit change nothing',
    paging: { pageSize: 'ignored' },
  },
  'unknown-parameter-refused': {
    matter: 'unknown-parameters',
    summary: 'a query parameter that the list does not know is 400',
    paging: { unknownParameters: 'refused' },
  },
  'newest-first': {
    matter: 'order',
    summary: 'lists begin with the newest record, so every new one moves all rows by one place',
    paging: { newestFirst: true },
  },
  'trailing-slash': {
    matter: 'slash',
    summary: 'paths end with a slash; one without it is redirected (301)',
    flags: ['trailing-slash'],
  },
} satisfies Record<string, ShapePart>

/** Formats of errors. Status codes are those of the default shape. */
export const FAILURES = {
  'validation-errors-object': {
    matter: 'errors',
    summary: 'a 400 is an object of lists by field',
    failure: ({ status, detail, field }) =>
      status === 400 ? { value: { [field ?? 'non_field_errors']: [detail] } } : { value: { detail } },
  },
  'validation-errors-list': {
    matter: 'errors',
    summary: 'a 400 is a list of sentences',
    failure: ({ status, detail }) => ({ value: status === 400 ? [detail] : { detail } }),
  },
  'html-errors': {
    matter: 'errors',
    summary: 'every error is an HTML page',
    failure: ({ status, detail }) => ({
      type: 'text/html; charset=utf-8',
      value: `<!doctype html><html><head><title>${status}</title></head><body><h1>${detail}</h1></body></html>`,
    }),
  },
  'throttle-silent': {
    matter: 'errors',
    summary: 'a 429 has no Retry-After and names no time',
    failure: ({ status, detail }) =>
      status === 429
        ? { value: { detail: 'Request was throttled.' }, headers: { 'retry-after': '' } }
        : { value: { detail } },
  },
  'throttle-second': {
    matter: 'errors',
    summary: 'a 429 says "1 second" and has no Retry-After',
    failure: ({ status, detail }) =>
      status === 429
        ? { value: { detail: detail.replace(/ 1 seconds\.$/, ' 1 second.') }, headers: { 'retry-after': '' } }
        : { value: { detail } },
  },
  'empty-success': {
    matter: 'success',
    summary: 'writes answer 204 with an empty body',
    flags: ['empty-success'],
  },
} satisfies Record<string, ShapePart>
