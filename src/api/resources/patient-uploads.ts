/**
 * The batch upload of patients from a CSV file, and its progress (specification, section 4.1).
 *
 * Invariant: the file is sent unchanged, in one part named `file`. It is sent again only after 429, so that no patient
 * is created twice.
 */
import type { Client } from '../client.ts'
import { create, type Sent } from '../http/writes.ts'
import { PatientUpload } from '../shapes/patient-upload.ts'
import { type CallOptions, type Got, type GotNone, getById } from './resource.ts'

export interface UploadFile {
  /** The name sent to the service, which accepts only names that end with `.csv`. */
  readonly name: string
  readonly bytes: Uint8Array
}

/**
 * `POST /v2/patients/batch-upload` (section 4.1): sends a CSV file, which the service processes in the background.
 * `record` is null if the answer has none: the file is accepted, but its progress cannot be read. Throws `ApiError` with
 * verdict `stop` if the file is refused, or if it is unknown whether it was accepted.
 */
export async function uploadPatients(
  client: Client,
  file: UploadFile,
  options?: CallOptions,
): Promise<Got<PatientUpload> | GotNone> {
  return create(client, 'patientUploads', PatientUpload, await multipartOf('file', file, 'text/csv'), options)
}

/**
 * Progress of a batch upload (section 4.1, which does not show its path: `paths.patientUpload`). Verdict `gone` if the
 * id is unknown.
 */
export function getPatientUpload(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<Got<PatientUpload>> {
  return getById(client, 'patientUpload', PatientUpload, id, options)
}

/**
 * A form of one file, as `multipart/form-data`.
 *
 * Invariant: the body is bytes, not a stream, so that it can be sent again after 429; a file's name cannot leave its
 * quotes (the platform's own FormData writes `%22` and `%0D%0A` as the HTML standard wants it).
 */
async function multipartOf(
  field: string,
  file: { readonly name: string; readonly bytes: Uint8Array },
  type: string,
): Promise<Required<Sent>> {
  const form = new FormData()
  form.append(field, new Blob([file.bytes], { type }), file.name)
  const encoded = new Response(form)
  const contentType = encoded.headers.get('content-type')!
  return { body: new Uint8Array(await encoded.arrayBuffer()), contentType }
}
