/** Formats of errors. Status codes are those of the default shape. */
import type { ShapePart } from './shape.ts'

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
