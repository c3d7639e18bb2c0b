/** Forms with their questions, packets and documents (specification, section 2.3; choices and nesting are not shown). */
import { z } from 'zod'
import { Id, identified, Optional } from './record.ts'

export const Choice = z.union([
  z.string(),
  z.looseObject({ ...identified, text_value: Optional, text: Optional, code: Optional }),
])

export const Question = z.looseObject({
  ...identified,
  question_type: z
    .union([z.string(), z.looseObject({ question_type: Optional, question_subtype: Optional })])
    .nullish(),
  text: Optional,
  help_text: Optional,
  order: Id.nullish(),
  link_id: Optional,
  page: Id.nullish(),
  choices: z.array(Choice).nullish(),
})

export const Form = z.looseObject({
  ...identified,
  name: Optional,
  text: Optional,
  enabled: z.boolean().nullish(),
  questions: z.array(Question).nullish(),
  created_at: Optional,
  updated_at: Optional,
})

export type Form = z.infer<typeof Form>

/** A packet and the forms in it, whole or as ids (specification, section 2.3). */
export const Packet = z.looseObject({
  ...identified,
  name: Optional,
  text: Optional,
  forms: z.array(z.union([Id, Form])).nullish(),
  created_at: Optional,
  updated_at: Optional,
})

export type Packet = z.infer<typeof Packet>

export const InputField = z.looseObject({
  ...identified,
  name: Optional,
  label: Optional,
  field_type: Optional,
  required: z.boolean().nullish(),
  page: Id.nullish(),
})

/** `input_fields` comes with `X-API-VERSION: v2.1` only (specification, sections 2.3 and 9). */
export const Document = z.looseObject({
  ...identified,
  name: Optional,
  text: Optional,
  input_fields: z.union([z.array(InputField), z.record(z.string(), z.unknown())]).nullish(),
  created_at: Optional,
  updated_at: Optional,
})

export type Document = z.infer<typeof Document>
