/**
 * Renders records in the default shape, for lists, single records and webhook events.
 *
 * Invariant: a reference shows the current state (a patient's new name, a packet's current forms), or null if it is
 * deleted or missing. A response keeps the wording that it was asked with.
 */
import { createHash } from 'node:crypto'
import { declaredAs } from '../../world/declared-catalogue.ts'
import type {
  Document,
  ESignature,
  Form,
  Message,
  Packet,
  PacketResponse,
  Patient,
  Response,
  ResponseFile,
} from '../../world/records.ts'
import type { Table } from '../../world/table.ts'
import type { EventSource, World, WorldEvent } from '../../world/world.ts'
import type { JsonRecord, Resource } from '../answer.ts'

/** Rendering options, in addition to the record. */
export interface Showing {
  readonly world: World
  /** The value of `X-API-VERSION`, empty without it. */
  readonly version: string
  /** True if packets show their forms with all questions. */
  readonly nestedForms: boolean
}

export const showPatient = (patient: Patient): JsonRecord => ({ ...patient })

export const showForm = (form: Form): JsonRecord => ({ ...form })

export function showPacket(packet: Packet, { world, nestedForms }: Showing): JsonRecord {
  const forms = packet.forms.flatMap((id) => world.forms.get(id) ?? [])
  return { ...packet, forms: nestedForms ? forms : forms.map(({ id, name }) => ({ id, name })) }
}

export function showDocument(document: Document, { version }: Showing): JsonRecord {
  if (version === 'v2.1') return { ...document }
  const { input_fields: _hidden, ...shown } = document
  return shown
}

export function showMessage(message: Message, { world }: Showing): JsonRecord {
  return {
    ...message,
    patient: world.patients.get(message.patient) === undefined ? null : { id: message.patient },
    form: named(world.forms, message.form),
    packet: named(world.packets, message.packet),
    document: named(world.documents, message.document),
  }
}

export function showResponse(response: Response, { world }: Showing): JsonRecord {
  const { files, e_signatures, form } = response
  // Written out for speed: most of the output is responses.
  return {
    id: response.id,
    form_id: form,
    form_name: response.form_name,
    form: form === null ? null : { id: form },
    packet: response.packet === null ? null : named(world.packets, response.packet),
    document: response.document === null ? null : named(world.documents, response.document),
    patient: world.person(response.patient),
    created_at: response.created_at,
    updated_at: response.updated_at,
    submitted_at: response.submitted_at,
    is_submitted: response.is_submitted,
    is_skipped: response.is_skipped,
    is_archived: response.is_archived,
    answers: response.answers,
    matrix_cells: response.matrix_cells,
    files: files.length === 0 ? files : files.map((file) => showFile(file, world)),
    e_signatures:
      e_signatures.length === 0 ? e_signatures : e_signatures.map((one) => showSignature(one, world)),
  }
}

export function showPacketResponse(response: PacketResponse, showing: Showing): JsonRecord {
  const packet = showing.world.packets.get(response.packet)
  const shown = packet === undefined ? null : showPacket(packet, { ...showing, nestedForms: true })
  return { ...response, packet: shown }
}

function named<T extends { readonly id: string; readonly name: string }>(
  table: Table<T>,
  id: string | null,
): { id: string; name: string } | null {
  const found = id === null ? undefined : table.get(id)
  return found === undefined ? null : { id: found.id, name: found.name }
}

/** A signed address that expires within two hours; it changes every hour. */
function expiring(kind: string, id: string, world: World): string {
  const expires = (Math.floor(world.clock.now() / 3_600_000_000) + 2) * 3600
  const signature = createHash('sha1').update(`${id}/${expires}`).digest('hex')
  return `https://files.example.com/${kind}/${id}?expires=${expires}&signature=${signature}`
}

function showFile(file: ResponseFile, world: World): JsonRecord {
  return { ...file, url: expiring('uploads', file.id, world) }
}

/** The smallest PNG: one transparent dot. */
const DOT =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

function showSignature(signature: ESignature, world: World): JsonRecord {
  return {
    ...signature,
    image: signature.image === 'inline' ? DOT : expiring('signatures', signature.id, world),
  }
}

const SHOW: Readonly<Record<EventSource, (row: never, showing: Showing) => JsonRecord>> = {
  patient: showPatient,
  form: showForm,
  packet: showPacket,
  document: showDocument,
  response: showResponse,
  packet_response: showPacketResponse,
}

const RESOURCE_OF: Readonly<Record<EventSource, Resource>> = {
  patient: 'patients',
  form: 'forms',
  packet: 'packets',
  document: 'documents',
  response: 'responses',
  packet_response: 'packet_responses',
}

/** The `data` of an event of `source` in the default shape, and the resource that shapes treat it as. */
export function showEventData(
  source: EventSource,
  row: WorldEvent['row'],
  showing: Showing,
): { resource: Resource; record: JsonRecord } {
  const declared = declaredAs(source)
  if (declared !== undefined) return { resource: declared.resource, record: { ...row } }
  return { resource: RESOURCE_OF[source], record: SHOW[source](row as never, showing) }
}
