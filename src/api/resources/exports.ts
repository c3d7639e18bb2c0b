/**
 * Exports of a form's answers as CSV or JSON (specification, section 4.5).
 *
 * Invariant: an export changes nothing at the service, so its POST is repeated like a GET; a file is handed over as it
 * comes and is never held whole.
 */

import type { Answer, Client, StreamOptions } from '../client.ts'
import type { Streamed } from '../http/read-stream.ts'
import type { Scan } from '../paging/pages.ts'
import { DEFAULT_BODY_KEYS } from '../paths.ts'
import { type CallOptions, type ListOptions, list } from './resource.ts'

/** `GET /v2/export-csv` (section 4.5): pages of the exports available to the team. */
export function listExports(client: Client, options?: ListOptions): Scan {
  return list(client, 'exports', 'exports', options)
}

/**
 * `POST /v2/export-csv?type=json` (section 4.5): one export as JSON; the answer's body is kept whole, whatever its
 * shape (`ExportContent` has those we know). Of columns with the same title one may be missing: `streamExport` has them
 * all. Throws `ApiError`: `gone` when there is no export of this id, `dead_letter` when the id is refused.
 */
export function readExport(client: Client, id: string, options: CallOptions = {}): Promise<Answer> {
  return client.request('POST', client.paths.exports, { ...options, ...asking(client, id, 'json') })
}

/**
 * `POST /v2/export-csv` (section 4.5): one export as CSV, `raw_text` or `download_file`, in bytes as they come. The
 * text may also be one JSON string (`content-type` then says `application/json`), with or without a byte order mark.
 * Throws as `readExport`; the stream itself fails with `ApiError`, verdict `retry`, when it is cut off, and with
 * `dead_letter` beyond `maxBytes`. Read the stream to its end or destroy it: it holds one of the requests in flight.
 */
export function streamExport(
  client: Client,
  id: string,
  type: 'raw_text' | 'download_file',
  options: CallOptions & Pick<StreamOptions, 'maxBytes'> = {},
): Promise<Streamed> {
  return client.stream('POST', client.paths.exports, { ...options, ...asking(client, id, type) })
}

/** The id goes under `bodyKeys.exportId` (`id`). */
function asking(client: Client, id: string, type: string) {
  return {
    query: { type },
    body: { [client.bodyKeys.exportId ?? DEFAULT_BODY_KEYS.exportId]: id },
    read: true,
    one: true,
  }
}
