/**
 * Patients (specification, section 4.1).
 *
 * Invariant: every call goes through the client's shared request budget. Reads only so far; create, update, delete
 * and the batch upload belong here too.
 */
import type { Client } from './client.ts'
import type { Scan } from './pages.ts'
import { type CallOptions, type Got, getById, type ListOptions, list } from './resource.ts'
import type { Patient } from './shapes/patient.ts'

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
export function listPatients(
  client: Client,
  options: Omit<ListOptions, 'query'> & { readonly filters?: PatientFilters } = {},
): Scan {
  const { filters, ...rest } = options
  return list(
    client,
    'patients',
    'patients',
    filters === undefined ? rest : { ...rest, query: { ...filters } },
  )
}

/** `GET /v2/patients/{id}` (section 4.1): one patient; verdict `gone` when there is none of this id. */
export function getPatient(client: Client, id: string, options?: CallOptions): Promise<Got<Patient>> {
  return getById<Patient>(client, 'patient', id, options)
}
