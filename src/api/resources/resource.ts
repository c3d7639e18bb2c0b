/**
 * The two reads that every resource has: its list, page by page, and one record by id.
 *
 * Invariant: a record is checked to be an object and otherwise handed over as it came; a field of an unexpected type
 * is the reader's to report (law 4), so it never fails a call here.
 */
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Client } from '../client.ts'
import { ShapeError } from '../errors.ts'
import type { Answer, RequestOptions } from '../http/answer.ts'
import type { PagesOptions, Scan } from '../paging/pages.ts'
import type { PathName } from '../paths.ts'

export type ListOptions = Omit<PagesOptions, 'resource' | 'params'>
export type CallOptions = Pick<RequestOptions, 'meter' | 'signal' | 'onRefusal'>

/** As `ListOptions`, with a resource's own filters in place of a query. */
export type FilterOptions<Filters> = Omit<ListOptions, 'query'> & { readonly filters?: Filters }

/** One record with the answer it came in (times for its version, headers). */
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

/** Throws `ApiError` with verdict `gone` when the id is unknown or another team's. */
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
      'the answer holds no record',
      'record_unreadable',
      'Check `paths` in the configuration.',
    )
  }
  return { record: record as Shape, answer }
}

/** The record that an answer's body is, or holds under `data`; null when there is none. */
export function recordIn(body: unknown): JsonObject | null {
  const wrapped = isObject(body) && body.id === undefined && body.uid === undefined && isObject(body.data)
  const record = wrapped ? body.data : body
  return isObject(record) ? record : null
}
