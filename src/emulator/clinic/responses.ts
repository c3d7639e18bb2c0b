/**
 * The life of a response: requested, saved, submitted, archived, deleted (specification, sections 2.4 and 3).
 *
 * Invariant: answers keep the wording of the questions at the time of answering; a response of a packet is submitted
 * only with its packet.
 */
import type { Draw } from '../world/draw.ts'
import { stableId } from '../world/id-space.ts'
import type { Answers, Response } from '../world/records.ts'
import { type Filling, fillDocument, fillForm, NO_ANSWERS } from '../world/seeded/fill-in.ts'
import type { World } from '../world/world.ts'

type Asked = Pick<Response, 'patient' | 'form' | 'packet' | 'document' | 'message' | 'packet_response'>

/** Creates an unanswered response. */
export function openResponse(world: World, asked: Asked): Response {
  const form = asked.form === null ? undefined : world.forms.get(asked.form)
  const now = world.now()
  return world.responses.create((id) => ({
    id,
    ...asked,
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
  return document === undefined ? NO_ANSWERS : fillDocument(document, filling)
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
