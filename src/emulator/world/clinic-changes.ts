/**
 * Background activity: creates and deletes patients, sends, answers, archives and edits forms and packets, at a rate.
 *
 * Invariant: a change that finds nothing to do returns false and does nothing; each change follows the service's rules.
 * The n-th change depends only on the seed and the state of the world; nothing changes after `signal` aborts.
 */
import type { Clock } from '../clock.ts'
import { NO_FIELDS } from '../http/resources/patient-body.ts'
import { cancelMessage, createMessage, isUnsent } from './clinic-messages.ts'
import {
  advancePacket,
  archiveResponse,
  generateAnswers,
  saveAnswers,
  submitPacket,
  submitResponse,
} from './clinic-responses.ts'
import { Draw, keyOf } from './draw.ts'
import type { PacketResponse, Response } from './records.ts'
import { makePatient } from './seeded/make-patient.ts'
import type { Row, Table } from './table.ts'
import type { World } from './world.ts'

/** True when something was changed. */
export type Change = (world: World, draw: Draw) => boolean

/** Any row; in half of the cases one of the newest, where most work happens. */
function someRow<T extends Row>(table: Table<T>, draw: Draw): T | undefined {
  const { size } = table
  if (size === 0) return undefined
  const among = draw.chance(0.5) ? Math.min(size, 100) : size
  return table.slice(size - 1 - draw.below(among), 1)[0]
}

const admit: Change = (world) => {
  const now = world.now()
  world.patients.create((id, index) => {
    const made = makePatient(world.patients.ids, world.key, index)
    return { ...NO_FIELDS, ...made, id, created_at: now, updated_at: now }
  })
  return true
}

const changePatient: Change = (world, draw) => {
  const patient = someRow(world.patients, draw)
  if (patient === undefined) return false
  const change = draw.chance(0.5)
    ? { phone_number: `555${draw.digits(7)}` }
    : { address2: `Apt ${draw.below(90)}`, patient_tags: [] }
  const updated_at = world.now()
  return world.patients.update(patient.id, (old) => ({ ...old, ...change, updated_at })) !== undefined
}

const losePatient: Change = (world, draw) => {
  const patient = someRow(world.patients, draw)
  return patient !== undefined && world.patients.remove(patient.id) !== undefined
}

const sendMessage: Change = (world, draw) => {
  const patient = someRow(world.patients, draw)
  const form = someRow(world.forms, draw)
  const packet = draw.chance(0.4) ? someRow(world.packets, draw) : undefined
  if (patient === undefined || (form === undefined && packet === undefined)) return false
  const email = patient.email || null
  const phone = patient.phone_number || null
  if (email === null && phone === null) return false
  const later = draw.chance(0.2) ? world.clock.elapsed() + draw.below(30_000_000) : null
  createMessage(world, {
    patient: patient.id,
    form: packet === undefined ? form!.id : null,
    packet: packet?.id ?? null,
    document: null,
    message_type: 'form_response_request',
    preferred_delivery_method: email === null ? 'sms' : 'email',
    target_email: email,
    target_phone_number: email === null ? phone : null,
    scheduled_at: later === null ? null : new Date(later / 1000).toISOString(),
  })
  return true
}

const cancel: Change = (world, draw) => {
  const message = someRow(world.messages, draw)
  return message !== undefined && isUnsent(message) && cancelMessage(world, message.id) !== undefined
}

const openOne = (world: World, draw: Draw): Response | undefined => {
  const response = someRow(world.responses, draw)
  return response === undefined || response.is_submitted ? undefined : response
}

const save: Change = (world, draw) => {
  const response = openOne(world, draw)
  if (response === undefined || response.packet_response !== null) return false
  return saveAnswers(world, response.id, generateAnswers(world, response, draw, 'sparse')) !== undefined
}

const submit: Change = (world, draw) => {
  const response = openOne(world, draw)
  if (response === undefined || response.packet_response !== null) return false
  saveAnswers(world, response.id, generateAnswers(world, response, draw, 'mixed'))
  return submitResponse(world, response.id) !== undefined
}

const openPacket = (world: World, draw: Draw): PacketResponse | undefined => {
  const packet = someRow(world.packetResponses, draw)
  return packet === undefined || packet.is_submitted ? undefined : packet
}

const advance: Change = (world, draw) => {
  const packet = openPacket(world, draw)
  return packet !== undefined && advancePacket(world, packet.id, draw) !== undefined
}

const finishPacket: Change = (world, draw) => {
  const packet = openPacket(world, draw)
  if (packet === undefined) return false
  const last = packet.responses.length - 1
  const skipped = new Set(last > 0 && draw.chance(0.4) ? [last] : [])
  return submitPacket(world, packet.id, draw, skipped) !== undefined
}

/** A correction by staff: saves an answered response again. */
const correct: Change = (world, draw) => {
  const response = someRow(world.responses, draw)
  if (response === undefined || !response.is_submitted || response.is_skipped) return false
  return saveAnswers(world, response.id, generateAnswers(world, response, draw, 'mixed')) !== undefined
}

const archive: Change = (world, draw) => {
  const response = someRow(world.responses, draw)
  if (response === undefined || !response.is_submitted) return false
  return archiveResponse(world, response.id) !== undefined
}

/** Deletes a response, but no member of a packet. */
const removeResponse: Change = (world, draw) => {
  const response = someRow(world.responses, draw)
  if (response === undefined || response.packet_response !== null) return false
  return world.responses.remove(response.id) !== undefined
}

const reword: Change = (world, draw) => {
  const form = someRow(world.forms, draw)
  if (form === undefined || form.questions.length === 0) return false
  const index = draw.below(form.questions.length)
  const questions = form.questions.map((one, place) =>
    place === index ? { ...one, text: `${one.text.replace(/ \(v\d+\)$/, '')} (v${draw.below(100)})` } : one,
  )
  const updated_at = world.now()
  return world.forms.update(form.id, (old) => ({ ...old, questions, updated_at })) !== undefined
}

const rewrite: Change = (world, draw) => {
  const text = `Revised ${draw.below(1000)}`
  const updated_at = world.now()
  const packet = draw.chance(0.5) ? someRow(world.packets, draw) : undefined
  if (packet !== undefined) {
    return world.packets.update(packet.id, (old) => ({ ...old, text, updated_at })) !== undefined
  }
  const document = someRow(world.documents, draw)
  if (document === undefined) return false
  return world.documents.update(document.id, (old) => ({ ...old, text, updated_at })) !== undefined
}

/** Each with its weight. */
export const CHANGES: readonly (readonly [weight: number, change: Change])[] = [
  [18, admit],
  [14, changePatient],
  [4, losePatient],
  [16, sendMessage],
  [2, cancel],
  [8, save],
  [16, submit],
  [6, advance],
  [8, finishPacket],
  [4, correct],
  [6, archive],
  [3, removeResponse],
  [2, reword],
  [1, rewrite],
]

/** Changes `world` `rate` times a second until `signal` aborts. */
export function startActivity(
  world: World,
  rate: number,
  seed: string,
  clock: Clock,
  signal: AbortSignal,
): void {
  const key = keyOf(seed, 'activity')
  const start = clock.now()
  let done = 0
  const run = async () => {
    while (!signal.aborted) {
      await clock.sleep(Math.max(10, 1000 / rate), signal)
      const due = Math.floor(((clock.now() - start) / 1_000_000) * rate)
      for (; done < due && !signal.aborted; done += 1) changeSomething(world, new Draw(key, done))
    }
  }
  void run()
}

/** Kinds of change to try before this change is skipped. */
const TRIES = 8

/** Makes one change, chosen by `draw`. */
export function changeSomething(world: World, draw: Draw): void {
  for (let left = TRIES; left > 0; left -= 1) {
    if (drawn(draw)(world, draw)) return
  }
}

const TOTAL = CHANGES.reduce((sum, [weight]) => sum + weight, 0)

function drawn(draw: Draw): Change {
  let place = draw.below(TOTAL)
  for (const [weight, change] of CHANGES) {
    if (place < weight) return change
    place -= weight
  }
  return CHANGES[0]![1]
}
