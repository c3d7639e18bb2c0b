/**
 * Documents (specification, section 4.3).
 *
 * Invariant: reads only; every call goes through the client's shared request budget.
 */
import type { Client } from '../client.ts'
import { Document } from '../shapes/document.ts'
import { type CallOptions, type Got, getById, type ListOptions, list, type TypedScan } from './resource.ts'

/** `GET /v2/documents` (section 4.3): pages of documents, with input_fields under v2.1. */
export function listDocuments(client: Client, options?: ListOptions): TypedScan<Document> {
  return list(client, 'documents', 'documents', Document, options)
}

/** `GET /v2/documents/{id}` (section 4.3): one document; verdict `gone` when there is none of this id. */
export function getDocument(client: Client, id: string, options?: CallOptions): Promise<Got<Document>> {
  return getById(client, 'document', Document, id, options)
}
