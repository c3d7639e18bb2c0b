/**
 * The common calls of resources: the list, page by page, one record by id, create, update and remove.
 *
 * Invariant: `record` and `records` are what their type says, `raw` is what the service sent. A field of an unexpected
 * type never fails a call: it is left out of the record and listed in `problems` (typed.ts). A write answered with 2xx is
 * never an error, whatever the body. The client never retries a write whose outcome is unknown, and its error says so.
 */
import type { z } from 'zod'
import { IntakeError } from '../../core/errors.ts'
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
    for (const [index, value] of raw.entries()) {
      const read = isObject(value) ? typed(schema, value) : null
      if (read === null) problems.push({ path: String(index), expected: 'object' })
      else {
        records.push(read.record)
        problems.push(...read.problems.map(({ path, expected }) => ({ path: `${index}.${path}`, expected })))
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

/** A body and, if it is not JSON, its type. */
export interface SentBody {
  readonly body: unknown
  readonly contentType?: string
}

/** POSTs to a list's path. `record` is null if the answer is 2xx and contains no record. */
export async function create<Schema extends z.ZodType>(
  client: Client,
  path: PathName,
  schema: Schema,
  sent: SentBody,
  options: CallOptions = {},
): Promise<RecordAnswer<z.output<Schema>> | EmptyAnswer> {
  const answer = await client.request('POST', client.paths[path], { ...options, ...sent })
  return recordAnswer(answer, schema) ?? { record: null, raw: null, problems: [], answer }
}

/**
 * Changes one record. If the answer does not contain the record (it may be empty), fetches it from `readPath` and
 * returns the answer of that fetch. Throws `ApiError`: `gone` if the id is unknown, `dead_letter` if the body is
 * refused, `stop` if it is unknown whether the change took effect.
 */
export async function update<Schema extends z.ZodType>(
  client: Client,
  method: 'PUT' | 'PATCH',
  path: PathName,
  schema: Schema,
  id: string,
  body: object,
  options: CallOptions = {},
  readPath: PathName = path,
): Promise<RecordAnswer<z.output<Schema>>> {
  const template = client.paths[path]
  const answer = await client.request(method, template, { ...options, params: { id }, body })
  const found = recordAnswer(answer, schema)
  if (found !== null && (found.raw.id ?? found.raw.uid ?? null) !== null) return found
  try {
    return await getById(client, readPath, schema, id, options)
  } catch (error) {
    if (!(error instanceof IntakeError)) throw error
    throw new IntakeError(
      `${method} ${template}: the change took effect, but its answer has no record, and fetching the record failed: ${error.message}`,
      {
        code: error.code,
        verdict: error.verdict,
        hint: 'Do not repeat the change; fetch the record later to see it.',
      },
    )
  }
}

/** Deletes one record. Throws `ApiError` with verdict `gone` if the id is unknown. */
export async function remove(
  client: Client,
  path: PathName,
  id: string,
  options: CallOptions = {},
): Promise<void> {
  await client.request('DELETE', client.paths[path], { ...options, params: { id } })
}
