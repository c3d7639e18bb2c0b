/**
 * Renders an answer in the current shape.
 *
 * Invariant: the body is complete text, so that faults can truncate or damage it; only an export is built while it is
 * sent.
 */
import type { Shape } from '../shapes/shape.ts'
import type { Answer, ExportAnswer } from './answer.ts'
import { renderExport } from './render-export.ts'
import type { Rendered, RenderedStream } from './send.ts'

const JSON_TYPE = 'application/json'

/** `method` is that of the request; the default is a read. */
export function render(answer: Exclude<Answer, ExportAnswer>, shape: Shape, method?: string): Rendered
export function render(answer: Answer, shape: Shape, method?: string): Rendered | RenderedStream
export function render(answer: Answer, shape: Shape, method = 'GET'): Rendered | RenderedStream {
  switch (answer.type) {
    case 'export':
      return renderExport(answer, shape)
    case 'empty':
      return { status: answer.status, headers: {}, body: '' }
    case 'record': {
      if (method !== 'GET' && shape.has('empty-success')) return { status: 204, headers: {}, body: '' }
      const record = shape.record(answer.record, { resource: answer.resource, inList: false })
      return written(answer.status, record, shape)
    }
    case 'page': {
      const context = { resource: answer.resource, inList: true }
      const rows = answer.rows.map((row) => shape.record(row, context))
      const { value, headers } = shape.envelope({ ...answer, rows })
      return written(200, value, shape, headers)
    }
    case 'failure': {
      const { value, headers, type } = shape.failure(answer)
      const merged = { ...answer.headers, ...headers }
      const kept = Object.fromEntries(Object.entries(merged).filter(([, text]) => text !== ''))
      if (type === undefined) return written(answer.status, value, shape, kept)
      return { status: answer.status, headers: { 'content-type': type, ...kept }, body: String(value) }
    }
  }
}

function written(
  status: number,
  value: unknown,
  shape: Shape,
  headers: Readonly<Record<string, string>> = {},
): Rendered {
  return {
    status,
    headers: { 'content-type': JSON_TYPE, ...headers },
    body: shape.text(JSON.stringify(value)),
  }
}
