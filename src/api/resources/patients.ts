/**
 * Patients and their batch upload (specification, section 4.1).
 *
 * Invariant: every call goes through the client's shared request budget; a write whose outcome is not known is not
 * repeated. A batch upload sends its file unchanged, in one part named `file`, and again only after 429, so that no
 * patient is created twice.
 */
import type { Client } from '../client.ts'
import { create, remove, type Sent, update } from '../http/writes.ts'
import { Patient, type PatientFields, PatientUpload } from '../shapes/patient.ts'
import {
  type CallOptions,
  type EmptyAnswer,
  type FilterOptions,
  getById,
  listFiltered,
  type RecordAnswer,
  type TypedScan,
} from './resource.ts'

/** The filters' names are not shown in the specification; a service may ignore those it does not know. */
export interface PatientFilters {
  readonly search?: string
  readonly email?: string
  readonly first_name?: string
  readonly last_name?: string
  readonly phone_number?: string
  readonly external_id?: string
}

/** `GET /v2/patients` (section 4.1): pages of patients. Rows must be checked against `filters` by the caller. */
export function listPatients(client: Client, options?: FilterOptions<PatientFilters>): TypedScan<Patient> {
  return listFiltered(client, 'patients', 'patients', Patient, options)
}

/** `GET /v2/patients/{id}` (section 4.1): one patient; verdict `gone` when there is none of this id. */
export function getPatient(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<RecordAnswer<Patient>> {
  return getById(client, 'patient', Patient, id, options)
}

/**
 * `POST /v2/patients` (section 4.1): creates a patient. `record` is null when the service's answer holds none: the
 * patient is there all the same. Throws `ApiError` with verdict `stop` when the fields are refused, or when nobody
 * knows whether the patient was created.
 */
export function createPatient(
  client: Client,
  fields: PatientFields,
  options?: CallOptions,
): Promise<RecordAnswer<Patient> | EmptyAnswer> {
  return create(client, 'patients', Patient, { body: fields }, options)
}

/**
 * `PUT /v2/patients/{id}` (section 4.1): full update; a field that is left out is cleared. Returns the patient as it
 * is then. Throws as `changePatient`.
 */
export function replacePatient(
  client: Client,
  id: string,
  fields: PatientFields,
  options?: CallOptions,
): Promise<RecordAnswer<Patient>> {
  return update(client, 'PUT', 'patient', Patient, id, fields, options)
}

/**
 * `PATCH /v2/patients/{id}` (section 4.1): replaces each field that is named, as a whole, and no other. Returns the
 * patient as it is then. Throws `ApiError`: `gone` when there is none of this id, `dead_letter` when the fields are
 * refused, `stop` when nobody knows whether it took effect.
 */
export function changePatient(
  client: Client,
  id: string,
  fields: Partial<PatientFields>,
  options?: CallOptions,
): Promise<RecordAnswer<Patient>> {
  return update(client, 'PATCH', 'patient', Patient, id, fields, options)
}

/** `DELETE /v2/patients/{id}` (section 4.1): verdict `gone` when there is none of this id. */
export function deletePatient(client: Client, id: string, options?: CallOptions): Promise<void> {
  return remove(client, 'patient', id, options)
}

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
): Promise<RecordAnswer<PatientUpload> | EmptyAnswer> {
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
): Promise<RecordAnswer<PatientUpload>> {
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
