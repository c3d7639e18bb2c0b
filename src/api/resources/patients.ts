/**
 * Patients (specification, section 4.1).
 *
 * Invariant: every call goes through the client's shared request budget; a write whose outcome is not known is not
 * repeated. The batch upload has its own file.
 */
import type { Client } from '../client.ts'
import { create, remove, update } from '../http/writes.ts'
import { Patient, type PatientFields } from '../shapes/patient.ts'
import {
  type CallOptions,
  type FilterOptions,
  type Got,
  type GotNone,
  getById,
  listFiltered,
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
export function getPatient(client: Client, id: string, options?: CallOptions): Promise<Got<Patient>> {
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
): Promise<Got<Patient> | GotNone> {
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
): Promise<Got<Patient>> {
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
): Promise<Got<Patient>> {
  return update(client, 'PATCH', 'patient', Patient, id, fields, options)
}

/** `DELETE /v2/patients/{id}` (section 4.1): verdict `gone` when there is none of this id. */
export function deletePatient(client: Client, id: string, options?: CallOptions): Promise<void> {
  return remove(client, 'patient', id, options)
}
