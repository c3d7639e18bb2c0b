/** A packet and the forms in it, whole or as ids (specification, section 2.3). */
import { z } from 'zod'
import { Form } from './form.ts'
import { Id, identified, Optional } from './record.ts'

export const Packet = z.looseObject({
  ...identified,
  name: Optional,
  text: Optional,
  forms: z.array(z.union([Id, Form])).nullish(),
  created_at: Optional,
  updated_at: Optional,
})

export type Packet = z.infer<typeof Packet>
