/**
 * Actions of clients and staff that the service's API does not offer, for rehearsals and tests: fill in, submit,
 * archive, delete.
 *
 * Invariant: each call follows the service's rules, with the same effects and events, or throws a `RangeError` with the
 * reason.
 */
import { Draw, keyOf } from '../world/draw.ts'
import type { Message, PacketResponse, Response } from '../world/records.ts'
import type { World } from '../world/world.ts'
import { readGivenAnswers } from './given-answers.ts'
import { createMessage, type MessageFields } from './messages.ts'
import { advancePacket, archivePacket, submitPacket } from './packets.ts'
import { archiveResponse, makeUpAnswers, saveAnswers, submitResponse } from './responses.ts'

export interface Staff {
  /** Sends a message; by default an e-mail to the patient, at once. */
  send(message: Pick<MessageFields, 'patient'> & Partial<MessageFields>): Message
  /** Saves answers by question id (see `readGivenAnswers`); without them, invented ones to every question. */
  answer(id: string, given?: Readonly<Record<string, unknown>>): Response
  submit(id: string): Response
  archive(id: string): Response
  remove(id: string): void
  /** Fills in the next form of a packet. */
  advancePacket(id: string): PacketResponse
  /** Submits a packet; `skip` are the positions, from 1, of members that its logic skips. */
  submitPacket(id: string, skip?: readonly number[]): PacketResponse
  archivePacket(id: string): PacketResponse
}

export function staffOf(world: World): Staff {
  let acts = 0
  const draw = () => {
    acts += 1
    return new Draw(keyOf(world.key.a, world.key.b, 'staff'), acts)
  }
  return {
    send(message) {
      const email = world.patients.get(message.patient)?.email || 'someone@example.com'
      return createMessage(world, {
        form: null,
        packet: null,
        document: null,
        message_type: 'form_response_request',
        preferred_delivery_method: 'email',
        target_email: email,
        target_phone_number: null,
        scheduled_at: null,
        ...message,
      })
    },
    answer(id, given) {
      const response = must(world.responses.get(id), 'no such response')
      if (given === undefined) {
        const made = makeUpAnswers(world, response, draw(), 'full')
        return must(saveAnswers(world, id, made), 'it was skipped')
      }
      const form = response.form === null ? undefined : world.forms.get(response.form)
      const key = keyOf(world.key.a, world.key.b, id)
      const answers = readGivenAnswers(must(form, 'its form is gone'), given, key, world.now())
      return must(saveAnswers(world, id, answers), 'it was skipped')
    },
    submit(id) {
      must(world.responses.get(id), 'no such response')
      return must(submitResponse(world, id), 'it is submitted, or is so with its packet only')
    },
    archive(id) {
      must(world.responses.get(id), 'no such response')
      return must(archiveResponse(world, id), 'it is archived already')
    },
    remove: (id) => void must(world.responses.remove(id), 'no such response'),
    advancePacket(id) {
      must(world.packetResponses.get(id), 'no such packet response')
      return must(advancePacket(world, id, draw()), 'there is no form left to fill in')
    },
    submitPacket(id, skip = []) {
      const { responses } = must(world.packetResponses.get(id), 'no such packet response')
      const outside = skip.find((place) => !Number.isInteger(place) || place < 1 || place > responses.length)
      if (outside !== undefined) throw new RangeError(`the packet has no member ${outside}`)
      const skipped = new Set(skip.map((place) => place - 1))
      return must(submitPacket(world, id, draw(), skipped), 'it is submitted already')
    },
    archivePacket: (id) => must(archivePacket(world, id), 'no such packet response'),
  }
}

function must<T>(found: T | undefined, otherwise: string): T {
  if (found === undefined) throw new RangeError(otherwise)
  return found
}
