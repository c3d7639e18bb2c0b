/**
 * Forms with their questions, packets and documents (specification, sections 2.3 and 4.3; choices and nesting are not
 * shown).
 *
 * Invariant: reads only; every call goes through the client's shared request budget.
 */
import { z } from 'zod'
import type { Client } from '../client.ts'
import {
  type CallOptions,
  getById,
  type ListOptions,
  list,
  type RecordAnswer,
  type TypedScan,
} from './resource.ts'
import { Id, identified, Optional } from './typed.ts'

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

/** `GET /v2/forms` (section 4.3): pages of forms; entries may lack their questions. */
export function listForms(client: Client, options?: ListOptions): TypedScan<Form> {
  return list(client, 'forms', 'forms', Form, options)
}

/** `GET /v2/forms/{id}` (section 4.3): one form; verdict `gone` when there is none of this id. */
export function getForm(client: Client, id: string, options?: CallOptions): Promise<RecordAnswer<Form>> {
  return getById(client, 'form', Form, id, options)
}

/** `GET /v2/documents` (section 4.3): pages of documents, with input_fields under v2.1. */
export function listDocuments(client: Client, options?: ListOptions): TypedScan<Document> {
  return list(client, 'documents', 'documents', Document, options)
}

/** `GET /v2/documents/{id}` (section 4.3): one document; verdict `gone` when there is none of this id. */
export function getDocument(
  client: Client,
  id: string,
  options?: CallOptions,
): Promise<RecordAnswer<Document>> {
  return getById(client, 'document', Document, id, options)
}

/** `GET /v2/packets` (section 4.3): pages of packets. */
export function listPackets(client: Client, options?: ListOptions): TypedScan<Packet> {
  return list(client, 'packets', 'packets', Packet, options)
}

/** `GET /v2/packets/{id}` (section 4.3): one packet; verdict `gone` when there is none of this id. */
export function getPacket(client: Client, id: string, options?: CallOptions): Promise<RecordAnswer<Packet>> {
  return getById(client, 'packet', Packet, id, options)
}
