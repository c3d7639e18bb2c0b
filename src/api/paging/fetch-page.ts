/**
 * One page of a list, asked for and read.
 *
 * Invariant: beyond the first page "not there" speaks of the page (rows vanished, a cursor ran out) and not of the list; an
 * answer that holds no list is never taken for an empty one.
 */

import { ApiError, ShapeError } from '../errors.ts'
import type { Answer, RequestOptions } from '../http/answer.ts'
import { type ListBody, readList } from './list-envelope.ts'
import type { Getter, PagesOptions } from './page.ts'

export interface Fetched {
  readonly number: number
  readonly query: string
  readonly answer: Answer
  readonly list: ListBody
}

export interface Missing {
  readonly number: number
  readonly missing: true
}

/** The page of this number, which `query` asks for. Throws `ApiError` and `ShapeError`. */
export async function fetchPage(
  client: Getter,
  path: string,
  { params, meter, resource }: PagesOptions,
  {
    number,
    query,
    signal,
  }: { readonly number: number; readonly query: string; readonly signal: AbortSignal },
): Promise<Fetched | Missing> {
  const call: RequestOptions = { query, signal, ...(params ? { params } : {}), ...(meter ? { meter } : {}) }
  try {
    const answer = await client.get(path, call)
    const list = readList(answer.body, answer.headers, resource, path)
    if (list === null) {
      throw new ShapeError(
        path,
        'the answer holds no list',
        'list_unreadable',
        'Check INTAKE_BASE_URL and `paths` in the configuration.',
      )
    }
    return { number, query, answer, list }
  } catch (error) {
    const vanished = error instanceof ApiError && number > 1 && (error.status === 404 || error.status === 400)
    if (vanished) return { number, missing: true }
    throw error
  }
}
