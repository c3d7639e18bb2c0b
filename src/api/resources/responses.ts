/**
 * Responses (specification, section 4.4).
 *
 * Invariant: reads only; every call goes through the client's shared request budget.
 */
import type { Client } from '../client.ts'
import { Response } from '../shapes/response.ts'
import {
  type CallOptions,
  type FilterOptions,
  getById,
  listFiltered,
  type RecordAnswer,
  type TypedScan,
} from './resource.ts'

/** Ids and dates; whether the dates' bounds are inclusive, and in which zone a day is meant, is not shown. */
export interface ResponseFilters {
  readonly patient?: string
  readonly form?: string
  readonly packet?: string
  /** `YYYY-MM-DD`, as the next two. */
  readonly submitted_on?: string
  readonly submitted_after?: string
  readonly submitted_before?: string
}

/**
 * `GET /v2/responses` (section 4.4): pages of responses, which may be summaries without `answers`. Rows must be
 * checked against `filters` by the caller.
 */
export function listResponses(client: Client, options?: FilterOptions<ResponseFilters>): TypedScan<Response> {
  return listFiltered(client, 'responses', 'responses', Response, options)
}

/** `GET /v2/responses/{id}` (section 4.4): one response, whole; verdict `gone` when there is none of this id. */
export function getResponse(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<RecordAnswer<Response>> {
  return getById(client, 'response', Response, id, options)
}
