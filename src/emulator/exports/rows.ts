/**
 * The rows of an export: one per client, in the order of the list of responses.
 *
 * Invariant: a row is built when it is sent, from the current response and client, and is not stored; records deleted
 * meanwhile are omitted. Other requests are served between two batches.
 */
import { setImmediate as turn } from 'node:timers/promises'
import type { ExportTable } from '../http/answer.ts'
import type { Form, Response } from '../world/records.ts'
import type { Person } from '../world/seeded/make-patient.ts'
import type { World } from '../world/world.ts'
import { cellOf, sheetOf } from './cells.ts'
import { columnsOf, LEADING_TITLES, type Style } from './columns.ts'
import { latestOfEachClient } from './latest.ts'

/** Cells of a batch: a few milliseconds of work. */
const BATCH = 4000

/** `idText` formats the id of a client in the current shape. */
export function exportOf(
  world: World,
  form: Form,
  style: Style,
  idText: (id: string) => string,
): ExportTable {
  const columns = columnsOf(form, style)
  const titles = [...LEADING_TITLES, ...columns.map(({ title }) => title)]
  const size = Math.max(1, Math.floor(BATCH / titles.length))
  const rowOf = (response: Response, client: Person) => {
    const sheet = sheetOf(response)
    return [
      ...[idText(client.id), client.first_name, client.last_name, client.email ?? ''],
      ...[
        time(sentAt(world, response)),
        time(response.submitted_at),
        response.is_archived ? 'True' : 'False',
      ],
      ...columns.map((column) => cellOf(column, sheet, style)),
    ]
  }
  async function* rows() {
    const indexes = await latestOfEachClient(world, form.id)
    for (let from = 0; from < indexes.length; from += size) {
      if (from > 0) await turn()
      const batch: string[][] = []
      for (const index of indexes.slice(from, from + size)) {
        const response = world.responses.at(index)
        const client = response === undefined ? null : world.person(response.patient)
        if (response !== undefined && client !== null) batch.push(rowOf(response, client))
      }
      if (batch.length > 0) yield batch
    }
  }
  return { titles, rows: rows() }
}

function sentAt({ messages }: World, { message, created_at }: Response): string {
  return (message === null ? null : messages.get(message)?.sent_at) ?? created_at
}

/** A stamp as exports write it: UTC without a zone, and without a fraction if it is zero. */
function time(stamp: string | null): string {
  return stamp === null ? '' : stamp.replace('T', ' ').replace('Z', '')
}
