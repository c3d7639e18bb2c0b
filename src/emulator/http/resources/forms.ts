/**
 * Forms, packets and documents (specification, section 4.3): read only.
 *
 * Invariant: a packet shows the current state of its forms, without deleted ones. Documents have `input_fields` only for
 * callers that request v2.1, in lists and by id.
 */
import { DECLARED } from '../../world/declared-catalogue.ts'
import type { Row, Table } from '../../world/table.ts'
import type { World } from '../../world/world.ts'
import { failure, type JsonRecord, notFound, type Resource } from '../answer.ts'
import { type Route, showingOf } from '../call.ts'
import { listPage } from '../paging.ts'
import { type Showing, showDocument, showForm, showPacket } from './show.ts'

/** List and retrieval of one read-only resource. */
export function readOnly<T extends Row>(
  resource: Resource,
  tableOf: (world: World) => Table<T>,
  show: (row: T, showing: Showing) => JsonRecord,
): Route[] {
  return [
    {
      path: `/v2/${resource}`,
      methods: {
        GET: (call) => listPage(call, resource, tableOf(call.world), [], (row) => show(row, showingOf(call))),
      },
    },
    {
      path: `/v2/${resource}/:id`,
      methods: {
        GET: (call) => {
          const table = tableOf(call.world)
          const id = call.shape.id(call.params.id ?? '', table.ids)
          const row = id === undefined ? undefined : table.get(id)
          if (row === undefined) return failure(404, notFound(resource))
          return { type: 'record', status: 200, resource, record: show(row, showingOf(call)) }
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

/** Lists and records of the resources that one file each declares. */
export const DECLARED_ROUTES: readonly Route[] = DECLARED.flatMap(({ resource, source }) =>
  readOnly(
    resource,
    (world) => world.declared(source),
    (row) => row,
  ),
)
