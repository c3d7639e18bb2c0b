/**
 * Forms, packets and documents (specification, section 4.3).
 *
 * Invariant: reads only; every call goes through the client's shared request budget.
 */
import type { Client } from '../client.ts'
import { Document, Form, Packet } from '../shapes/form.ts'
import {
  type CallOptions,
  getById,
  type ListOptions,
  list,
  type RecordAnswer,
  type TypedScan,
} from './resource.ts'

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
