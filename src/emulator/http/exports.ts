/**
 * Exports (specification, section 4.5): the list.
 *
 * Invariant: there is one export for each form that exists, at any moment; its id is a space of its own, so that the
 * id of a form is none of an export.
 */
import type { Form } from '../world/records.ts'
import type { World } from '../world/world.ts'
import type { Answer, JsonRecord } from './answer.ts'
import type { Call, Route } from './call.ts'
import { listPage } from './paging.ts'

function list(call: Call): Answer {
  const { world } = call
  return listPage(call, 'exports', world.forms, [], (form) => showExport(form, world))
}

function showExport({ id, name, created_at }: Form, { forms, seed }: World): JsonRecord {
  const index = forms.ids.indexOf(id)!
  return { id: seed.exportIds.idAt(index), name: `${name} export`, form: { id, name }, created_at }
}

export const EXPORT_ROUTES: readonly Route[] = [{ path: '/v2/export-csv', methods: { GET: list } }]
