/**
 * The writes that resources have in common: create, update, remove.
 *
 * Invariant: a write that was answered 2xx is never an error, whatever its body holds; a write whose outcome is not
 * known is never sent again (the client sees to that) and its error says so.
 */
import { IntakeError } from '../../core/errors.ts'
import type { Client } from '../client.ts'
import type { PathName } from '../paths.ts'
import { type CallOptions, type Got, getById, recordIn } from '../resources/resource.ts'

/** Body and, where it is no JSON, its type. */
export interface Sent {
  readonly body: unknown
  readonly contentType?: string
}

/** POSTs to a list's path. `record` is null when the service took it and its answer holds no record. */
export async function create<Shape>(
  client: Client,
  path: PathName,
  sent: Sent,
  options: CallOptions = {},
): Promise<Got<Shape | null>> {
  const answer = await client.request('POST', client.paths[path], { ...options, ...sent })
  return { record: recordIn(answer.body) as Shape | null, answer }
}

/**
 * Changes one record; where the answer does not hold it (it may be empty), it is fetched, from `readPath`, and
 * `answer` is that of the fetch. Throws `ApiError`: `gone` when the id is unknown, `dead_letter` when the body is
 * refused, `stop` when nobody knows whether it took effect.
 */
export async function update<Shape>(
  client: Client,
  method: 'PUT' | 'PATCH',
  path: PathName,
  id: string,
  body: object,
  options: CallOptions = {},
  readPath: PathName = path,
): Promise<Got<Shape>> {
  const template = client.paths[path]
  const answer = await client.request(method, template, { ...options, params: { id }, body })
  const record = recordIn(answer.body)
  if (record !== null && (record.id ?? record.uid ?? null) !== null)
    return { record: record as Shape, answer }
  try {
    return await getById<Shape>(client, readPath, id, options)
  } catch (error) {
    if (!(error instanceof IntakeError)) throw error
    throw new IntakeError(
      `${method} ${template}: done, but its answer held no record, and then ${error.message}`,
      {
        code: error.code,
        verdict: error.verdict,
        hint: 'The change took effect; fetch the record later to see it.',
      },
    )
  }
}

/** Deletes one record. Throws `ApiError` with verdict `gone` when there is none of this id. */
export async function remove(
  client: Client,
  path: PathName,
  id: string,
  options: CallOptions = {},
): Promise<void> {
  await client.request('DELETE', client.paths[path], { ...options, params: { id } })
}
