/**
 * The common writes of resources: create, update, remove.
 *
 * Invariant: a write answered with 2xx is never an error, whatever the body. The client never retries a write whose
 * outcome is unknown, and its error says so.
 */
import type { z } from 'zod'
import { IntakeError } from '../../core/errors.ts'
import type { Client } from '../client.ts'
import type { PathName } from '../paths.ts'
import {
  type CallOptions,
  type EmptyAnswer,
  getById,
  type RecordAnswer,
  recordAnswer,
} from '../resources/resource.ts'

/** A body and, if it is not JSON, its type. */
export interface Sent {
  readonly body: unknown
  readonly contentType?: string
}

/** POSTs to a list's path. `record` is null if the answer is 2xx and contains no record. */
export async function create<Schema extends z.ZodType>(
  client: Client,
  path: PathName,
  schema: Schema,
  sent: Sent,
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
