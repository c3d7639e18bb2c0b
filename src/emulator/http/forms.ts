/**
 * Forms, packets and documents (specification, section 4.3): read only.
 *
 * Invariant: a packet shows its member forms as they are now; one that was deleted is left out. Documents show
 * `input_fields` only to a caller that asks for v2.1, in the list and by id alike.
 */
import type { Document, Form, Packet } from '../world/records.ts'
import type { Row, Table } from '../world/table.ts'
import type { World } from '../world/world.ts'
import { failure, type JsonRecord, NOT_FOUND, type Resource } from './answer.ts'
import type { Call, Route } from './call.ts'
import { listPage } from './paging.ts'

const showForm = (form: Form): JsonRecord => ({ ...form })

function showPacket(packet: Packet, call: Call): JsonRecord {
  const forms = packet.forms.flatMap((id) => call.world.forms.get(id) ?? [])
  if (call.shape.has('nested-forms')) return { ...packet, forms }
  return { ...packet, forms: forms.map(({ id, name }) => ({ id, name })) }
}

function showDocument(document: Document, call: Call): JsonRecord {
  if (call.version === 'v2.1') return { ...document }
  const { input_fields: _hidden, ...shown } = document
  return shown
}

/** List and retrieval of one read-only resource. */
function readOnly<T extends Row>(
  resource: Resource,
  tableOf: (world: World) => Table<T>,
  show: (row: T, call: Call) => JsonRecord,
): Route[] {
  return [
    {
      path: `/v2/${resource}`,
      methods: { GET: (call) => listPage(call, resource, tableOf(call.world), [], (row) => show(row, call)) },
    },
    {
      path: `/v2/${resource}/:id`,
      methods: {
        GET: (call) => {
          const table = tableOf(call.world)
          const id = call.shape.id(call.params.id ?? '', table.ids)
          const row = id === undefined ? undefined : table.get(id)
          if (row === undefined) return failure(404, NOT_FOUND[resource])
          return { type: 'record', status: 200, resource, record: show(row, call) }
        },
      },
    },
  ]
}

export const FORM_ROUTES: readonly Route[] = [
  ...readOnly('forms', (world) => world.forms, showForm),
  ...readOnly('packets', (world) => world.packets, showPacket),
  ...readOnly('documents', (world) => world.documents, showDocument),
]
