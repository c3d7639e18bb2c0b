/**
 * The common reads of resources: the list, page by page, and one record by id.
 *
 * Invariant: a record must be an object and is otherwise returned as received. A field of an unexpected type never fails
 * a call, since the caller reports it as a problem (law 4).
 */
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Client } from '../client.ts'
import { ShapeError } from '../errors.ts'
import type { Answer, RequestOptions } from '../http/answer.ts'
import type { PagesOptions, Scan } from '../paging/pages.ts'
import type { PathName } from '../paths.ts'

export type ListOptions = Omit<PagesOptions, 'resource' | 'params'>
export type CallOptions = Pick<RequestOptions, 'meter' | 'signal' | 'onRefusal'>

/** As `ListOptions`, with the filters of a resource instead of a query. */
export type FilterOptions<Filters> = Omit<ListOptions, 'query'> & { readonly filters?: Filters }

/** One record, with its answer for times and headers. */
export interface Got<Shape> {
  readonly record: Shape
  readonly answer: Answer
}

export function list(client: Client, path: PathName, resource: string, options: ListOptions = {}): Scan {
  return client.pages(client.paths[path], { ...options, resource })
}

export function listFiltered<Filters extends { readonly [Name in keyof Filters]?: string }>(
  client: Client,
  path: PathName,
  resource: string,
  options: FilterOptions<Filters> = {},
): Scan {
  const { filters, ...rest } = options
  return list(client, path, resource, filters === undefined ? rest : { ...rest, query: { ...filters } })
}

/** Throws `ApiError` with verdict `gone` if the id is unknown or belongs to another team. */
export async function getById<Shape = JsonObject>(
  client: Client,
  path: PathName,
  id: string,
  options: CallOptions = {},
): Promise<Got<Shape>> {
  const template = client.paths[path]
  const answer = await client.get(template, { ...options, params: { id } })
  const record = recordIn(answer.body)
  if (record === null) {
    throw new ShapeError(
      template,
      'the answer has no record',
      'record_unreadable',
      'Check `paths` in the configuration.',
    )
  }
  return { record: record as Shape, answer }
}

/** The record in an answer's body, which is the body itself or its `data`; null if there is none. */
export function recordIn(body: unknown): JsonObject | null {
  const wrapped = isObject(body) && body.id === undefined && body.uid === undefined && isObject(body.data)
  const record = wrapped ? body.data : body
  return isObject(record) ? record : null
}
