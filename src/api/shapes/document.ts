/** A document; `input_fields` comes with `X-API-VERSION: v2.1` only (specification, sections 2.3 and 9). */
import { z } from 'zod'
import { Id, identified, Optional } from './record.ts'

export const InputField = z.looseObject({
  ...identified,
  name: Optional,
  label: Optional,
  field_type: Optional,
  required: z.boolean().nullish(),
  page: Id.nullish(),
})

export const Document = z.looseObject({
  ...identified,
  name: Optional,
  text: Optional,
  input_fields: z.union([z.array(InputField), z.record(z.string(), z.unknown())]).nullish(),
  created_at: Optional,
  updated_at: Optional,
})

export type Document = z.infer<typeof Document>
