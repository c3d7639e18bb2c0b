/** A patient, returned and sent, and a batch upload (specification, sections 2.1 and 4.1, which do not show every field). */
import { z } from 'zod'
import { identified, Optional } from './record.ts'

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

export interface EmergencyContactFields {
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

export interface PatientTagFields {
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
