/**
 * Exports (specification, section 4.5): the list, and one export in one of three formats.
 *
 * Invariant: each existing form has exactly one export, whose id differs from every form's. Requesting an export changes
 * nothing.
 */

import { isUuid } from '../../world/id-space.ts'
import type { Form } from '../../world/records.ts'
import type { World } from '../../world/world.ts'
import {
  type Answer,
  EXPORT_FORMATS,
  type ExportAnswer,
  failure,
  type JsonRecord,
  NOT_FOUND,
} from '../answer.ts'
import type { Call, Route } from '../call.ts'
import { listPage } from '../paging.ts'
import { exportOf } from './export-rows.ts'
import { readObject, refused } from './message-body.ts'

function list(call: Call): Answer {
  const { world } = call
  return listPage(call, 'exports', world.forms, [], (form) => showExport(form, world))
}

function showExport({ id, name, created_at }: Form, { forms, seed }: World): JsonRecord {
  const index = forms.ids.indexOf(id)!
  return { id: seed.exportIds.idAt(index), name: nameOf(name), form: { id, name }, created_at }
}

const nameOf = (form: string) => `${form} export`

function run({ body, query, shape, world, version }: Call): Answer {
  const { forms, seed } = world
  const format = formatOf(query.get('type') ?? 'json')
  if (format === undefined) return refused('type')
  const given = readObject(body)?.id
  const text = typeof given === 'string' || typeof given === 'number' ? String(given) : ''
  const id = shape.id(text, seed.exportIds)
  // In shapes with numeric ids an unknown id is not a UUID either.
  if (id === undefined ? !/^\d+$/.test(text) : !isUuid(id)) return refused('id')
  const index = id === undefined ? undefined : seed.exportIds.indexOf(id)
  const form = index === undefined ? undefined : forms.at(index)
  if (form === undefined) return failure(404, NOT_FOUND.exports)
  const table = exportOf(world, form, version === 'v2.1' ? 'flat' : 'legacy', shape.idText)
  return { type: 'export', format, name: nameOf(form.name), table }
}

function formatOf(text: string): ExportAnswer['format'] | undefined {
  return EXPORT_FORMATS.find((one) => one === text)
}

export const EXPORT_ROUTES: readonly Route[] = [{ path: '/v2/export-csv', methods: { GET: list, POST: run } }]
