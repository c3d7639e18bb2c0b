/**
 * The batch upload of patients from a CSV file, and its progress (specification, section 4.1).
 *
 * Invariant: the file goes out as the bytes that were given, in one part named `file`; it is sent again only after
 * 429, so that no patient is created twice.
 */
import type { Client } from '../client.ts'
import { multipartOf } from '../http/multipart.ts'
import { create } from '../http/writes.ts'
import type { PatientUpload } from '../shapes/patient-upload.ts'
import { type CallOptions, type Got, getById } from './resource.ts'

export interface UploadFile {
  /** As the service is told it; only names in `.csv` are accepted there. */
  readonly name: string
  readonly bytes: Uint8Array
}

/**
 * `POST /v2/patients/batch-upload` (section 4.1): hands a CSV file to the service, which works through it in the
 * background. `record` is null when the answer holds none: the file is taken, and its progress cannot be asked for.
 * Throws `ApiError` with verdict `stop` when the file is refused, or when nobody knows whether it was taken.
 */
export async function uploadPatients(
  client: Client,
  file: UploadFile,
  options?: CallOptions,
): Promise<Got<PatientUpload | null>> {
  return create<PatientUpload>(client, 'patientUploads', await multipartOf('file', file, 'text/csv'), options)
}

/**
 * Progress of a batch upload (section 4.1, which does not show its path: `paths.patientUpload`). Verdict `gone` when
 * there is no upload of this id.
 */
export function getPatientUpload(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<Got<PatientUpload>> {
  return getById<PatientUpload>(client, 'patientUpload', id, options)
}
