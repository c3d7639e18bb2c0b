/**
 * The life of a packet response: set up, progress, submission (specification, sections 2.8 and 3.2).
 *
 * Invariant: its members exist before it does and keep their order; submission stamps every member with the same
 * time and leaves members that the packet's logic skipped without answers.
 */
import type { Draw } from '../world/draw.ts'
import type { PacketResponse, Response } from '../world/records.ts'
import { NO_ANSWERS } from '../world/seeded/fill-in.ts'
import type { World } from '../world/world.ts'
import { generateAnswers, openResponse, saveAnswers } from './responses.ts'

/** Sets up the response to a packet with an open response for each of its forms that exists. */
export function setUpPacket(
  world: World,
  asked: Pick<Response, 'patient' | 'document' | 'message'> & { readonly packet: string },
): PacketResponse {
  const { ids, end } = world.packetResponses
  const packet_response = ids.idAt(end)
  const forms = (world.packets.get(asked.packet)?.forms ?? []).filter((form) => world.forms.get(form))
  const members = forms.map((form) => openResponse(world, { ...asked, form, packet_response }))
  const now = world.now()
  return world.packetResponses.create((id) => ({
    id,
    packet: asked.packet,
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
  const at = packet?.form_index ?? 0
  if (packet === undefined || packet.is_submitted || at >= packet.responses.length) return undefined
  fillMember(world, packet.responses[at]!, draw)
  return world.packetResponses.update(id, (old) => ({ ...old, form_index: at + 1, updated_at: world.now() }))
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
  for (const [at, member] of members.entries()) {
    if (at >= (packet.form_index ?? 0) && !skipped.has(at)) fillMember(world, member, draw)
  }
  const now = world.now()
  for (const [at, member] of members.entries()) {
    const left = skipped.has(at) ? { is_skipped: true, ...NO_ANSWERS } : {}
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
