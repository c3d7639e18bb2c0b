/** A batch upload of patients and how far it is (specification, section 4.1; its fields are not shown). */
import { z } from 'zod'
import { identified, Optional } from './record.ts'

const Count = z.number().nullish()

const PatientUploadError = z.looseObject({
  /** From 1, the header not counted. */
  row: z.union([z.number(), z.string()]).nullish(),
  detail: Optional,
})

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
