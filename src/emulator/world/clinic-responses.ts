/**
 * The life of a response and of a packet response: requested, saved, submitted, archived, deleted (specification,
 * sections 2.4, 2.8 and 3).
 *
 * Invariant: answers keep the wording of the questions at the time of answering; a response of a packet is submitted
 * only with its packet. The members of a packet response exist before it does and keep their order; submission stamps
 * every member with the same time and leaves members that the packet's logic skipped without answers.
 */
import type { Draw } from './draw.ts'
import { stableId } from './draw.ts'
import type { Answers, PacketResponse, Response } from './records.ts'
import { type Filling, fillDocument, fillForm, NO_ANSWERS } from './seeded/fill-in.ts'
import type { World } from './world.ts'

type Requested = Pick<Response, 'patient' | 'form' | 'packet' | 'document' | 'message' | 'packet_response'>

/** Creates an unanswered response. */
export function openResponse(world: World, requested: Requested): Response {
  const form = requested.form === null ? undefined : world.forms.get(requested.form)
  const now = world.now()
  return world.responses.create((id) => ({
    id,
    ...requested,
    form_name: form?.name ?? null,
    is_submitted: false,
    is_skipped: false,
    is_archived: false,
    submitted_at: null,
    created_at: now,
    updated_at: now,
    ...NO_ANSWERS,
  }))
}

/** Answers drawn for the current form or document of a response. */
export function generateAnswers(
  world: World,
  response: Response,
  draw: Draw,
  manner: Filling['manner'],
): Answers {
  const number = draw.word()
  const filling: Filling = {
    draw,
    manner,
    id: (nth) => stableId(world.key, number, nth),
    at: world.clock.now(),
    signer: () => {
      const client = world.patients.get(response.patient)
      return client === undefined ? '' : `${client.first_name} ${client.last_name}`
    },
  }
  const form = response.form === null ? undefined : world.forms.get(response.form)
  if (form !== undefined) return fillForm(form, filling)
  const document = response.document === null ? undefined : world.documents.get(response.document)
  if (document !== undefined) return fillDocument(document, filling)
  // A deleted form asks nothing any more: the answers stay.
  const { answers, matrix_cells, files, e_signatures } = response
  return { answers, matrix_cells, files, e_signatures }
}

/** These functions return undefined if there is no such response, or its state does not permit the change. */
export function saveAnswers(world: World, id: string, answers: Answers): Response | undefined {
  const response = world.responses.get(id)
  if (response === undefined || response.is_skipped) return undefined
  return world.responses.update(id, (old) => ({ ...old, ...answers, updated_at: world.now() }))
}

export function submitResponse(world: World, id: string): Response | undefined {
  const response = world.responses.get(id)
  if (response === undefined || response.is_submitted || response.packet_response !== null) return undefined
  const now = world.now()
  return world.responses.update(id, (old) => ({
    ...old,
    is_submitted: true,
    submitted_at: now,
    updated_at: now,
  }))
}

export function archiveResponse(world: World, id: string): Response | undefined {
  const response = world.responses.get(id)
  if (response === undefined || response.is_archived) return undefined
  return world.responses.update(id, (old) => ({ ...old, is_archived: true, updated_at: world.now() }))
}

/** Sets up the response to a packet with an open response for each of its forms that exists. */
export function setUpPacket(
  world: World,
  requested: Pick<Response, 'patient' | 'document' | 'message'> & { readonly packet: string },
): PacketResponse {
  const { ids, end } = world.packetResponses
  const packet_response = ids.idAt(end)
  const forms = (world.packets.get(requested.packet)?.forms ?? []).filter((form) => world.forms.get(form))
  const members = forms.map((form) => openResponse(world, { ...requested, form, packet_response }))
  const now = world.now()
  return world.packetResponses.create((id) => ({
    id,
    packet: requested.packet,
    is_submitted: false,
    submitted_at: null,
    is_archived: false,
    created_at: now,
    updated_at: now,
    form_index: null,
    is_queued: false,
    responses: members.map((member) => member.id),
  }))
}

/** Fills in the next form; undefined if there is none, or no such packet response. */
export function advancePacket(world: World, id: string, draw: Draw): PacketResponse | undefined {
  const packet = world.packetResponses.get(id)
  const index = packet?.form_index ?? 0
  if (packet === undefined || packet.is_submitted || index >= packet.responses.length) return undefined
  fillMember(world, packet.responses[index]!, draw)
  return world.packetResponses.update(id, (old) => ({
    ...old,
    form_index: index + 1,
    updated_at: world.now(),
  }))
}

/** Submits the packet; `skipped` are the positions, from 0, of members that its logic skips. */
export function submitPacket(
  world: World,
  id: string,
  draw: Draw,
  skipped: ReadonlySet<number>,
): PacketResponse | undefined {
  const packet = world.packetResponses.get(id)
  if (packet === undefined || packet.is_submitted) return undefined
  const members = packet.responses
  for (const [index, member] of members.entries()) {
    if (index >= (packet.form_index ?? 0) && !skipped.has(index)) fillMember(world, member, draw)
  }
  const now = world.now()
  for (const [index, member] of members.entries()) {
    const left = skipped.has(index) ? { is_skipped: true, ...NO_ANSWERS } : {}
    const stamped = { is_submitted: true, submitted_at: now, updated_at: now, ...left }
    world.responses.update(member, (old) => ({ ...old, ...stamped }))
  }
  return world.packetResponses.update(id, (old) => ({
    ...old,
    is_submitted: true,
    submitted_at: now,
    form_index: members.length,
    updated_at: now,
  }))
}

export function archivePacket(world: World, id: string): PacketResponse | undefined {
  return world.packetResponses.update(id, (old) => ({ ...old, is_archived: true, updated_at: world.now() }))
}

/** Answers a member that has no answers yet. */
function fillMember(world: World, id: string, draw: Draw): void {
  const member = world.responses.get(id)
  if (member !== undefined && member.answers.length === 0) {
    saveAnswers(world, id, generateAnswers(world, member, draw, 'mixed'))
  }
}
