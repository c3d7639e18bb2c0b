/**
 * Responses, and exports of a form's answers as CSV or JSON (specification, sections 4.4 and 4.5).
 *
 * Invariant: changes nothing at the service, so the POST of an export is retried like a GET; every call goes through the
 * client's shared request budget. `streamExport` never has the whole file in memory.
 */
import type { Answer, Client, StreamOptions } from '../client.ts'
import type { Streamed } from '../http/read-stream.ts'
import { DEFAULT_BODY_KEYS } from '../paths.ts'
import { Export, Response } from '../shapes/response.ts'
import {
  type CallOptions,
  type FilterOptions,
  getById,
  type ListOptions,
  list,
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

/** `GET /v2/export-csv` (section 4.5): pages of the exports available to the team. */
export function listExports(client: Client, options?: ListOptions): TypedScan<Export> {
  return list(client, 'exports', 'exports', Export, options)
}

/**
 * `POST /v2/export-csv?type=json` (section 4.5): one export as JSON, in any shape (`ExportContent` has the known ones).
 * JSON may lack one of several columns with the same title; `streamExport` returns all columns. Throws `ApiError`:
 * `gone` if the id is unknown, `dead_letter` if the id is refused.
 */
export function readExport(client: Client, id: string, options: CallOptions = {}): Promise<Answer> {
  return client.request('POST', client.paths.exports, { ...options, ...exportRequest(client, id, 'json') })
}

/**
 * `POST /v2/export-csv` (section 4.5): one export as CSV, `raw_text` or `download_file`, as a stream of bytes. The text
 * may also be one JSON string (`content-type` is then `application/json`), with or without a byte order mark. Throws as
 * `readExport`. The stream fails with an `ApiError`: verdict `retry` if it is cut off, `dead_letter` beyond `maxBytes`.
 * Read the stream to its end or destroy it: until then it counts towards the client's `concurrency`.
 */
export function streamExport(
  client: Client,
  id: string,
  type: 'raw_text' | 'download_file',
  options: CallOptions & Pick<StreamOptions, 'maxBytes'> = {},
): Promise<Streamed> {
  return client.stream('POST', client.paths.exports, { ...options, ...exportRequest(client, id, type) })
}

/** The body has the id under `bodyKeys.exportId` (default `id`). */
function exportRequest(client: Client, id: string, type: string) {
  return {
    query: { type },
    body: { [client.bodyKeys.exportId ?? DEFAULT_BODY_KEYS.exportId]: id },
    read: true,
    one: true,
  }
}
