/** Ways to request pages, and notations of `next`. The rows of a list are the same in all of them. */
import type { ShapePart } from './shape.ts'

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
