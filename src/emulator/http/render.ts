/**
 * Renders an answer in the current shape.
 *
 * Invariant: the body is complete text, so that faults can truncate or damage it; only an export is built while it is
 * sent.
 */
import { Readable } from 'node:stream'
import { create as disposition } from 'content-disposition'
import { stringify } from 'csv-stringify/sync'
import type { FastifyReply } from 'fastify'
import type { Shape } from '../shapes/shape.ts'
import type { Answer, ExportAnswer, ExportTable } from './answer.ts'

/**
 * Sends a rendered answer through Fastify.
 *
 * Invariant: a streamed body is read only as fast as the caller takes it and is abandoned when the caller disconnects;
 * a failure in the middle closes the connection.
 */
export interface Rendered {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface RenderedStream extends Omit<Rendered, 'body'> {
  readonly body: AsyncIterable<string>
}

export function send(
  reply: FastifyReply,
  {
    status,
    headers,
    body,
  }: Omit<Rendered, 'body'> & { readonly body: string | Buffer | AsyncIterable<string> },
): FastifyReply {
  const isWhole = typeof body === 'string' || Buffer.isBuffer(body)
  return reply
    .code(status)
    .headers(headers)
    .send(isWhole ? body : Readable.from(body, { objectMode: false }))
}

/** The complete text of a body. */
export async function whole(body: string | AsyncIterable<string>): Promise<string> {
  if (typeof body === 'string') return body
  let text = ''
  for await (const piece of body) text += piece
  return text
}

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

/**
 * Renders an export in the requested format and the current shape.
 *
 * Invariant: every format contains the same rows, and every cell except in JSON keyed by title.
 */
const CSV_TYPE = 'text/csv; charset=utf-8'

function renderExport({ format, name, table }: ExportAnswer, shape: Shape): RenderedStream {
  if (format === 'json') {
    if (shape.has('export-json-rows')) return streamed(JSON_TYPE, jsonRowsOf(table))
    const rows = jsonOf(table)
    return streamed(JSON_TYPE, shape.has('export-json-data') ? around('{"data":', rows, '}') : rows)
  }
  const csv = shape.has('raw-text-bom') ? around('\ufeff', csvOf(table), '') : csvOf(table)
  if (format === 'download_file') {
    return streamed(CSV_TYPE, csv, { 'content-disposition': attachment(name) })
  }
  if (shape.has('raw-text-quoted')) return streamed(JSON_TYPE, around('"', escaped(csv), '"'))
  return streamed(shape.has('raw-text-csv') ? CSV_TYPE : 'text/plain; charset=utf-8', csv)
}

function streamed(
  type: string,
  body: AsyncIterable<string>,
  headers: Readonly<Record<string, string>> = {},
): RenderedStream {
  return { status: 200, headers: { 'content-type': type, ...headers }, body }
}

async function* around(before: string, body: AsyncIterable<string>, after: string): AsyncGenerator<string> {
  yield before
  yield* body
  if (after !== '') yield after
}

/** The inside of a JSON string. */
async function* escaped(body: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const text of body) yield JSON.stringify(text).slice(1, -1)
}

/** Characters that some system forbids in file names or that could mislead a reader. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f<>:"/\\|?*\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g
const MAX_LENGTH = 100

function attachment(name: string): string {
  const safe = name
    .replaceAll(UNSAFE, '_')
    .slice(0, MAX_LENGTH)
    .toWellFormed()
    .replaceAll(/^[. ]+|[. ]+$/g, '')
  const file = `${safe || 'export'}.csv`
  return disposition(file, { fallback: file.replaceAll(/[^\x20-\x7e]/g, '_') })
}

/**
 * An export as CSV, as Python's csv module writes it: lines end with CRLF, and a cell is quoted only when it holds a
 * comma, a quote or a line end of any kind.
 *
 * Invariant: a chunk ends where a row ends; no state is kept between chunks.
 */
const AS_PYTHON = { record_delimiter: '\r\n', quoted_match: /[\r\n]/ }

async function* csvOf({ titles, rows }: ExportTable): AsyncGenerator<string> {
  yield stringify([[...titles]], AS_PYTHON)
  for await (const batch of rows) yield stringify(batch as string[][], AS_PYTHON)
}

/**
 * An export as JSON, row by row: an array of objects keyed by title. An empty cell is null, any other its text. A later
 * column replaces an earlier one with the same title; keys keep the order of the columns.
 */
async function* jsonOf({ titles, rows }: ExportTable): AsyncGenerator<string> {
  const last = new Map(titles.map((title, index) => [title, index]))
  const members = [...last].map(([title, at]) => ({ name: `${JSON.stringify(title)}:`, at }))
  const object = (row: readonly string[]) =>
    `{${members.map(({ name, at }) => name + writtenCell(row[at]!)).join(',')}}`
  yield* listed(rows, object)
}

/** Arrays of cells, so that repeated titles lose no cell. */
async function* jsonRowsOf({ titles, rows }: ExportTable): AsyncGenerator<string> {
  yield `{"headers":${JSON.stringify(titles)},"rows":`
  yield* listed(rows, (row) => `[${row.map(writtenCell).join(',')}]`)
  yield '}'
}

async function* listed(
  rows: ExportTable['rows'],
  write: (row: readonly string[]) => string,
): AsyncGenerator<string> {
  yield '['
  let comma = ''
  for await (const batch of rows) {
    yield comma + batch.map(write).join(',')
    comma = ','
  }
  yield ']'
}

function writtenCell(cell: string): string {
  return cell === '' ? 'null' : JSON.stringify(cell)
}
