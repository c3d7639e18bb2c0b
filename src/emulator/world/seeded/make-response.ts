/**
 * Generates seeded responses, messages and packet responses from an index.
 *
 * Invariant: they derive from the same visits, so a message, its responses and its packet response refer to each other;
 * a response keeps the wording that its form was seeded with. `headOf` returns the filtered fields without generating
 * answers.
 */
import { stamp } from '../../clock.ts'
import { Draw, stableId } from '../draw.ts'
import type { Answers, Document, Form, Message, PacketResponse, Response } from '../records.ts'
import { fillDocument, fillForm, NO_ANSWERS } from './fill-in.ts'
import { WORLD_START } from './make-patient.ts'
import type { Head, Seed } from './seed.ts'
import type { Place } from './visits.ts'

interface Visit {
  readonly place: Place
  readonly patient: number
  readonly document: number | null
  readonly requested: number
  readonly sent: number
  readonly submitted: number
}

const MINUTE = 60_000_000
const DAY = 86_400_000_000
const SPAN = 420 * DAY
/** 2099-01-01T09:00:00Z: messages seeded as scheduled stay so. */
const FAR = 4_070_941_200_000_000

function visitOf(seeded: Seed, place: Place): Visit {
  const { visits, key, patients, documents } = seeded
  const { plan, round } = place
  const draw = new Draw(key, visits.numberOf(place))
  const drawn = draw.below(patients.count)
  const first = plan.sameClient === true || plan.answers === 'full'
  const patient = first ? new Draw(key, -1 - round).below(patients.count) : drawn
  const requested = WORLD_START + Math.floor(draw.share() * SPAN)
  const sent = requested + draw.below(50_000_000)
  const submitted = sent + 2 * MINUTE + Math.floor(draw.share() ** 3 * 9 * DAY)
  const document = plan.target === 'document' ? draw.below(documents.count) : null
  return { place, patient, document, requested, sent, submitted }
}

function formOf(seeded: Seed, { place }: Visit): number | null {
  const { plan, round, at, member } = place
  const { forms, packets } = seeded
  if (plan.target === 'document') return null
  if (plan.target === 'packet') return forms.ids.indexOf(packets.make(plan.fixed!).forms[member]!)!
  return plan.fixed ?? forms.first + ((round * 10 + at) % (forms.count - forms.first))
}

function isStamped({ plan }: Place): boolean {
  return plan.outcome === 'submitted' || plan.outcome === 'archived'
}

function isSkipped({ plan, member }: Place): boolean {
  return plan.skipsLast === true && member === plan.responses - 1
}

/** `index` counts from the first response of the visits. */
export function headOf(seeded: Seed, index: number): Head {
  const visit = visitOf(seeded, seeded.visits.ofResponse(index))
  return {
    patient: visit.patient,
    form: formOf(seeded, visit),
    packet: visit.place.plan.target === 'packet' ? visit.place.plan.fixed! : null,
    submitted: isStamped(visit.place) ? visit.submitted : null,
    skipped: isSkipped(visit.place),
  }
}

export function makeResponse(seeded: Seed, index: number): Response {
  const { visits, patients, packets, documents, forms } = seeded
  const place = visits.ofResponse(index)
  const visit = visitOf(seeded, place)
  const { plan, member } = place
  const formIndex = formOf(seeded, visit)
  const form = formIndex === null ? null : forms.make(formIndex)
  const document = visit.document === null ? null : documents.make(visit.document)
  const message = visits.message(place)
  const packetResponse = visits.packetResponse(place)
  const stamped = isStamped(place)
  const is_skipped = isSkipped(place)
  const created = message === null ? visit.requested : visit.sent
  const saved = plan.outcome === 'progress' && member === 0 ? visit.sent + MINUTE : created
  const archived = visit.submitted + 3 * DAY
  const updated = plan.outcome === 'archived' ? archived : stamped ? visit.submitted : saved
  const given = is_skipped ? NO_ANSWERS : answersOf(seeded, index, visit, form, document)
  return {
    id: seeded.responseIds.idAt(seeded.before + index),
    patient: patients.ids.idAt(visit.patient),
    form: formIndex === null ? null : forms.ids.idAt(formIndex),
    form_name: form?.name ?? null,
    packet: plan.target === 'packet' ? packets.make(plan.fixed!).id : null,
    document: document?.id ?? null,
    message: message === null ? null : seeded.messageIds.idAt(message),
    packet_response: packetResponse === null ? null : seeded.packetResponseIds.idAt(packetResponse),
    created_at: stamp(created),
    updated_at: stamp(updated),
    submitted_at: stamped ? stamp(visit.submitted) : null,
    is_submitted: stamped,
    is_skipped,
    is_archived: plan.outcome === 'archived',
    answers: given.answers,
    matrix_cells: given.matrix_cells,
    files: given.files,
    e_signatures: given.e_signatures,
  }
}

function answersOf(
  seeded: Seed,
  index: number,
  visit: Visit,
  form: Form | null,
  document: Document | null,
): Answers {
  const { plan, member } = visit.place
  const draw = new Draw({ a: seeded.key.b, b: seeded.key.a }, index)
  const started = plan.outcome === 'progress' ? member === 0 : plan.outcome === 'open' && draw.chance(0.5)
  if (!isStamped(visit.place) && !started) return NO_ANSWERS
  const filling = {
    draw,
    id: (nth: number) => stableId(seeded.key, index, nth),
    at: visit.submitted,
    signer: () => {
      const { first_name, last_name } = seeded.patients.make(visit.patient)
      return `${first_name} ${last_name}`
    },
    manner: plan.answers ?? 'mixed',
    ...(plan.outcome === 'open' && form !== null ? { until: Math.ceil(form.questions.length / 2) } : {}),
  } as const
  if (form !== null) return fillForm(form, filling)
  return document === null ? NO_ANSWERS : fillDocument(document, filling)
}

export function makePacketResponse(seeded: Seed, index: number): PacketResponse {
  const { visits, packets } = seeded
  const place = visits.ofPacketResponse(index)
  const visit = visitOf(seeded, place)
  const { plan } = place
  const is_submitted = isStamped(place)
  const first = seeded.before + visits.firstResponse(place)
  const progress = plan.outcome === 'progress'
  return {
    id: seeded.packetResponseIds.idAt(index),
    packet: packets.make(plan.fixed!).id,
    is_submitted,
    submitted_at: is_submitted ? stamp(visit.submitted) : null,
    is_archived: false,
    created_at: stamp(visit.sent),
    updated_at: stamp(is_submitted ? visit.submitted : progress ? visit.sent + MINUTE : visit.sent),
    form_index: is_submitted ? plan.responses : progress ? 1 : null,
    is_queued: false,
    responses: Array.from({ length: plan.responses }, (_, index) => seeded.responseIds.idAt(first + index)),
  }
}

export function makeMessage(seeded: Seed, index: number): Message {
  const { visits, patients, forms, packets, documents } = seeded
  const place = visits.ofMessage(index)
  const visit = visitOf(seeded, place)
  const { plan, round, at } = place
  const patient = patients.make(visit.patient)
  const status = plan.message!
  const wasSent = status === 'sent'
  const isEmail = plan.method === undefined ? round % 2 === 0 : plan.method === 'email'
  const formIndex = plan.target === 'form' ? formOf(seeded, visit) : null
  const packet = plan.target === 'packet' ? packets.make(plan.fixed!) : null
  const document = visit.document === null ? null : documents.make(visit.document)
  const form = formIndex === null ? null : forms.make(formIndex)
  const planned = status === 'scheduled' ? FAR : at % 4 === 3 ? visit.sent : null
  return {
    id: seeded.messageIds.idAt(index),
    patient: patient.id,
    form: form?.id ?? null,
    packet: packet?.id ?? null,
    document: document?.id ?? null,
    message_type: 'form_response_request',
    preferred_delivery_method: isEmail ? 'email' : 'sms',
    target_email: isEmail ? patient.email || `reached${index + 1}@example.com` : null,
    target_phone_number: isEmail ? null : patient.phone_number || '5550100',
    scheduled_at: planned === null ? null : stamp(planned),
    status,
    content: contentOf((form ?? packet ?? document)!.name),
    sent_at: wasSent ? stamp(visit.sent) : null,
    created_at: stamp(visit.requested),
    updated_at: stamp(wasSent ? visit.sent : visit.requested),
  }
}

/** The text of a message. */
export function contentOf(name: string): string {
  return `Please fill in "${name}": https://forms.example.com/r`
}
