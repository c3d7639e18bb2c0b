/**
 * Forms (specification, section 4.3).
 *
 * Invariant: reads only; every call goes through the client's shared request budget.
 */
import type { Client } from '../client.ts'
import { Form } from '../shapes/form.ts'
import { type CallOptions, type Got, getById, type ListOptions, list, type TypedScan } from './resource.ts'

/** `GET /v2/forms` (section 4.3): pages of forms; entries may lack their questions. */
export function listForms(client: Client, options?: ListOptions): TypedScan<Form> {
  return list(client, 'forms', 'forms', Form, options)
}

/** `GET /v2/forms/{id}` (section 4.3): one form; verdict `gone` when there is none of this id. */
export function getForm(client: Client, id: string, options?: CallOptions): Promise<Got<Form>> {
  return getById(client, 'form', Form, id, options)
}
