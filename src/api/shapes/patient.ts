/** A patient as the service returns it (specification, section 2.1; which fields are required is not shown). */
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
