/**
 * Patients and their batch upload (specification, sections 2.1 and 4.1, which do not show every field).
 *
 * Invariant: every call goes through the client's shared request budget; a write whose outcome is not known is not
 * repeated. A batch upload sends its file unchanged, in one part named `file`, and again only after 429, so that no
 * patient is created twice.
 */
import { z } from 'zod'
import type { Client } from '../client.ts'
import {
  type CallOptions,
  create,
  type EmptyAnswer,
  type FilterOptions,
  getById,
  listFiltered,
  type RecordAnswer,
  remove,
  type SentBody,
  type TypedScan,
  update,
} from './resource.ts'
import { identified, Optional } from './typed.ts'

export const EmergencyContact = z.looseObject({
  first_name: Optional,
  last_name: Optional,
  phone_number: Optional,
  relationship: Optional,
  address: Optional,
  address2: Optional,
  city: Optional,
  state: Optional,
  zipcode: Optional,
})

export const PatientTag = z.looseObject({ name: Optional, color: Optional })

export const Patient = z.looseObject({
  ...identified,
  external_id: Optional,
  first_name: Optional,
  last_name: Optional,
  email: Optional,
  phone_number: Optional,
  date_birth: Optional,
  sex_at_birth: Optional,
  provider: Optional,
  address: Optional,
  address2: Optional,
  city: Optional,
  state: Optional,
  zipcode: Optional,
  emergency_contact: EmergencyContact.nullish(),
  patient_tags: z.array(PatientTag).nullish(),
  custom_fields: z.record(z.string(), z.unknown()).nullish(),
  created_at: Optional,
  updated_at: Optional,
})

export type Patient = z.infer<typeof Patient>

type Text = string | null

/** Fields of a request that creates or updates a patient (section 2.1). */
export interface PatientFields {
  readonly external_id?: Text
  readonly first_name?: Text
  readonly last_name?: Text
  readonly email?: Text
  /** Digits. */
  readonly phone_number?: Text
  /** `YYYY-MM-DD`. */
  readonly date_birth?: Text
  readonly sex_at_birth?: Text
  readonly provider?: Text
  readonly address?: Text
  readonly address2?: Text
  readonly city?: Text
  readonly state?: Text
  readonly zipcode?: Text
  readonly emergency_contact?: EmergencyContactFields | null
  readonly patient_tags?: readonly PatientTagFields[] | null
  /** The team's own; the specification has strings as values. */
  readonly custom_fields?: { readonly [key: string]: unknown } | null
}

interface EmergencyContactFields {
  readonly first_name?: Text
  readonly last_name?: Text
  readonly phone_number?: Text
  readonly relationship?: Text
  readonly address?: Text
  readonly address2?: Text
  readonly city?: Text
  readonly state?: Text
  readonly zipcode?: Text
}

interface PatientTagFields {
  readonly name: string
  /** `#rrggbb`. */
  readonly color: string
}

const Count = z.number().nullish()

const PatientUploadError = z.looseObject({
  /** From 1, the header not counted. */
  row: z.union([z.number(), z.string()]).nullish(),
  detail: Optional,
})

/** A batch upload of patients and its progress (section 4.1; its fields are not shown). */
export const PatientUpload = z.looseObject({
  ...identified,
  /** `processing`, `completed`; others are kept as they come. */
  status: Optional,
  total_rows: Count,
  processed_rows: Count,
  success_count: Count,
  error_count: Count,
  errors: z.array(PatientUploadError).nullish(),
})

export type PatientUpload = z.infer<typeof PatientUpload>

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
): Promise<Required<SentBody>> {
  const form = new FormData()
  form.append(field, new Blob([file.bytes], { type }), file.name)
  const encoded = new Response(form)
  const contentType = encoded.headers.get('content-type')!
  return { body: new Uint8Array(await encoded.arrayBuffer()), contentType }
}
