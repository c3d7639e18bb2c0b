/**
 * Sent messages, and what a patient then has to fill in. Emulator only: it sends nothing to anybody.
 *
 * Invariant: returned values were read through the service's own API.
 */
import type { Loose, ServiceUnderTest } from '../../support/service-under-test.ts'
import { control, until } from './control.ts'
import { createPatient, scheduleMessage } from './making.ts'
import { idOf, rowsOf, statusOf, walk } from './reading.ts'

export interface Sent {
  readonly patient: Loose
  readonly message: Loose
  /** The requested responses: one of a form or document, or one per member of a packet. */
  readonly responses: readonly Loose[]
}

/** Sends a message about a form, a packet or a document at once and waits until its responses exist. */
export async function send(service: ServiceUnderTest, about: Loose, fields: Loose = {}): Promise<Sent> {
  const patient = await createPatient(service, fields)
  const { id } = await scheduleMessage(service, { patient: patient.id, scheduled_at: null, ...about })
  const ask = async () => (await service.call('GET', `/v2/messages/${id}`)).body
  const message = await until('sent', ask, (one) => statusOf(one) === 'sent')
  const list = async () =>
    rowsOf(await service.call('GET', `/v2/responses?patient=${patient.id}&page_size=100`))
  const responses = await until('asked for', list, (rows) => rows.length > 0)
  return { patient, message, responses }
}

/** A packet of at least this many forms. */
export async function packetOf(service: ServiceUnderTest, least: number): Promise<Loose> {
  const { rows } = await walk(service, '/v2/packets')
  const packet = rows.find(({ forms }) => forms.length >= least)
  if (packet === undefined) throw new Error(`no packet has ${least} forms`)
  return packet
}

/** A form and a question of it that satisfies. */
export async function questionWhere(
  service: ServiceUnderTest,
  what: string,
  satisfies: (question: Loose, form: Loose) => boolean,
): Promise<{ form: Loose; question: Loose }> {
  const { rows } = await walk(service, '/v2/forms')
  for (const form of rows) {
    const question = form.questions.find((one: Loose) => satisfies(one, form))
    if (question !== undefined) return { form, question }
  }
  throw new Error(`no form has ${what}`)
}

/** Fills in one form as a new patient and submits it. */
export async function fillIn(service: ServiceUnderTest, form: string, answers: Loose): Promise<Sent> {
  const sent = await send(service, { form })
  const id = idOf(sent.responses[0])
  await control(service, 'POST', `responses/${id}/answers`, { answers })
  await control(service, 'POST', `responses/${id}/submit`)
  return { ...sent, responses: [(await service.call('GET', `/v2/responses/${id}`)).body] }
}

/** The packet response to which a response belongs. */
export async function packetResponseOf(service: ServiceUnderTest, response: string): Promise<Loose> {
  const { results } = await control(service, 'GET', 'packet-responses')
  return results.find(({ responses }: Loose) => responses.includes(response))
}
