/**
 * The common reads of resources: the list, page by page, and one record by id.
 *
 * Invariant: `record` and `records` are what their type says, `raw` is what the service sent. A field of an unexpected
 * type never fails a call: it is left out of the record and listed in `problems` (typed.ts).
 */
import type { z } from 'zod'
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Client } from '../client.ts'
import { ShapeError } from '../errors.ts'
import type { Answer, RequestOptions } from '../http/answer.ts'
import type { Page, PagesOptions, Scan, ScanOutcome } from '../paging/pages.ts'
import type { PathName } from '../paths.ts'
import { type FieldProblem, typed } from './typed.ts'

export type ListOptions = Omit<PagesOptions, 'resource' | 'params'>
export type CallOptions = Pick<RequestOptions, 'meter' | 'signal' | 'onRefusal'>

/** As `ListOptions`, with the filters of a resource instead of a query. */
export type FilterOptions<Filters> = Omit<ListOptions, 'query'> & { readonly filters?: Filters }

/** One record, with its answer for times and headers. */
export interface RecordAnswer<Shape> {
  readonly record: Shape
  /** The record as received. */
  readonly raw: JsonObject
  /** Fields that are in `raw` only, because they are not of their type. */
  readonly problems: readonly FieldProblem[]
  readonly answer: Answer
}

/** An answer to a write that took effect and whose answer has no record. */
export interface EmptyAnswer {
  readonly record: null
  readonly raw: null
  readonly problems: readonly []
  readonly answer: Answer
}

export interface TypedPage<Shape> extends Omit<Page, 'records'> {
  readonly records: readonly Shape[]
  /** The records as received, with those that are no objects. */
  readonly raw: readonly unknown[]
  /** Their paths begin with the place in `raw`. */
  readonly problems: readonly FieldProblem[]
}

/** As `Scan`, with records of a type. */
export interface TypedScan<Shape> extends AsyncGenerator<TypedPage<Shape>, ScanOutcome, undefined> {
  readonly outcome: ScanOutcome
}

export function list<Schema extends z.ZodType>(
  client: Client,
  path: PathName,
  resource: string,
  schema: Schema,
  options: ListOptions = {},
): TypedScan<z.output<Schema>> {
  const scan = client.pages(client.paths[path], { ...options, resource })
  return Object.defineProperty(typedPages(scan, schema), 'outcome', { get: () => scan.outcome }) as TypedScan<
    z.output<Schema>
  >
}

async function* typedPages<Schema extends z.ZodType>(
  scan: Scan,
  schema: Schema,
): AsyncGenerator<TypedPage<z.output<Schema>>, ScanOutcome, undefined> {
  for await (const { records: raw, ...page } of scan) {
    const records: z.output<Schema>[] = []
    const problems: FieldProblem[] = []
    for (const [at, value] of raw.entries()) {
      const read = isObject(value) ? typed(schema, value) : null
      if (read === null) problems.push({ path: String(at), expected: 'object' })
      else {
        records.push(read.record)
        problems.push(...read.problems.map(({ path, expected }) => ({ path: `${at}.${path}`, expected })))
      }
    }
    yield { ...page, records, raw, problems }
  }
  return scan.outcome
}

export function listFiltered<
  Schema extends z.ZodType,
  Filters extends { readonly [Name in keyof Filters]?: string },
>(
  client: Client,
  path: PathName,
  resource: string,
  schema: Schema,
  options: FilterOptions<Filters> = {},
): TypedScan<z.output<Schema>> {
  const { filters, ...rest } = options
  const query = filters === undefined ? {} : { query: { ...filters } }
  return list(client, path, resource, schema, { ...rest, ...query })
}

/** Throws `ApiError` with verdict `gone` if the id is unknown or belongs to another team. */
export async function getById<Schema extends z.ZodType>(
  client: Client,
  path: PathName,
  schema: Schema,
  id: string,
  options: CallOptions = {},
): Promise<RecordAnswer<z.output<Schema>>> {
  const template = client.paths[path]
  const answer = await client.get(template, { ...options, params: { id } })
  const found = recordAnswer(answer, schema)
  if (found !== null) return found
  throw new ShapeError(
    template,
    'the answer has no record',
    'record_unreadable',
    'Check `paths` in the configuration.',
  )
}

/** The record of an answer, or null if it has none. */
export function recordAnswer<Schema extends z.ZodType>(
  answer: Answer,
  schema: Schema,
): RecordAnswer<z.output<Schema>> | null {
  const raw = recordIn(answer.body)
  if (raw === null) return null
  const read = typed(schema, raw)
  return read === null ? null : { ...read, raw, answer }
}

/** The record in an answer's body, which is the body itself or its `data`; null if there is none. */
export function recordIn(body: unknown): JsonObject | null {
  const wrapped = isObject(body) && body.id === undefined && body.uid === undefined && isObject(body.data)
  const record = wrapped ? body.data : body
  return isObject(record) ? record : null
}
