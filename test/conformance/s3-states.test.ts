/** Section 3 of the specification: states and transitions. */
import { describe, expect } from 'vitest'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { control, inSeconds, passTime, until } from './support/control.ts'
import { createPatient, inYears, scheduleMessage } from './support/making.ts'
import { expectDone, expectRefused, idOf, rowsOf, scheduledAtOf, statusOf } from './support/reading.ts'
import { rule } from './support/rule.ts'
import { packetOf, packetResponseOf, send } from './support/sending.ts'

const service = serviceUnderTest()
const read = async (id: string): Promise<Loose> => (await service().call('GET', `/v2/messages/${id}`)).body
const formId = async () => idOf(rowsOf(await service().call('GET', '/v2/forms'))[0])
const responsesOf = async (patient: string) =>
  rowsOf(await service().call('GET', `/v2/responses?patient=${patient}`))

describe('3.1 message', () => {
  rule('3.1 "Not sent immediately; processed at scheduled_at"', ['control'], async () => {
    const patient = idOf(await createPatient(service()))
    const scheduled_at = await inSeconds(service(), 3600)
    const id = idOf(await scheduleMessage(service(), { patient, scheduled_at }))
    await passTime(service(), 3500)
    expect(await read(id)).toMatchObject({ status: 'scheduled', sent_at: null })
    expect(await responsesOf(patient)).toEqual([])
    await passTime(service(), 110)
    const sent = await until(
      'sent',
      () => read(id),
      (one) => statusOf(one) !== 'scheduled',
    )
    expect(sent.status).toBe('sent')
    expect(Date.parse(sent.sent_at)).toBeGreaterThanOrEqual(Date.parse(scheduled_at))
    expect(await responsesOf(patient)).toMatchObject([
      { is_submitted: false, submitted_at: null, answers: [] },
    ])
  })

  rule(
    '3.1 "PUT … Schedule time and target contact information change": it stays unsent',
    ['writing'],
    async () => {
      const id = idOf(await scheduleMessage(service()))
      const change = { scheduled_at: inYears(11), target_email: 'other@example.com' }
      expectDone(service(), await service().call('PUT', `/v2/messages/${id}`, { body: change }), 200)
      const now = await read(id)
      expect(Date.parse(scheduledAtOf(now) ?? '')).toBe(Date.parse(change.scheduled_at))
      expect(now.target_email).toBe(change.target_email)
      expect(statusOf(now)).not.toMatch(/^(sent|delivered|failed|cancell?ed)$/)
    },
  )

  rule(
    '3.1 "PUT": a message that was moved is sent at its new time, not at the old',
    ['control'],
    async () => {
      const id = idOf(await scheduleMessage(service(), { scheduled_at: await inSeconds(service(), 60) }))
      const body = { scheduled_at: await inSeconds(service(), 600) }
      await service().call('PUT', `/v2/messages/${id}`, { body })
      await passTime(service(), 120)
      expect(statusOf(await read(id))).toBe('scheduled')
      await passTime(service(), 600)
      await until(
        'sent',
        () => read(id),
        (one) => statusOf(one) === 'sent',
      )
    },
  )

  rule('3.1 "PATCH /v2/messages/{id}/scheduled with status cancelled": cancelled', ['writing'], async () => {
    const id = idOf(await scheduleMessage(service()))
    const reply = await service().call('PATCH', `/v2/messages/${id}/scheduled`, {
      body: { status: 'cancelled' },
    })
    expectDone(service(), reply, 200)
    expect(statusOf(await read(id))).toMatch(/^cancell?ed$/)
  })

  rule('3.1 "DELETE /v2/messages/{id} … cancelled (not delivered)"', ['writing'], async () => {
    const id = idOf(await scheduleMessage(service()))
    expectDone(service(), await service().call('DELETE', `/v2/messages/${id}`), 204)
    const reply = await service().call('GET', `/v2/messages/${id}`)
    if (service().isEmulator || reply.status !== 404) expect(statusOf(reply.body)).toMatch(/^cancell?ed$/)
  })

  rule(
    '3.1 "not delivered": a cancelled message asks for nothing when its time comes',
    ['control'],
    async () => {
      for (const [method, path, body] of [
        ['DELETE', '', undefined],
        ['PATCH', '/scheduled', { status: 'cancelled' }],
      ] as const) {
        const patient = idOf(await createPatient(service()))
        const scheduled_at = await inSeconds(service(), 30)
        const id = idOf(await scheduleMessage(service(), { patient, scheduled_at }))
        await service().call(method, `/v2/messages/${id}${path}`, { body })
        await passTime(service(), 60)
        expect(statusOf(await read(id))).toBe('cancelled')
        expect(await responsesOf(patient)).toEqual([])
      }
    },
  )

  rule(
    '3.1 "message not yet sent": after it, changing and cancelling answer 400 and change nothing',
    ['control'],
    async () => {
      const { message } = await send(service(), { form: await formId() })
      for (const [method, path, body] of [
        ['PUT', '', { scheduled_at: inYears(1) }],
        ['DELETE', '', undefined],
        ['PATCH', '/scheduled', { status: 'cancelled' }],
      ] as const) {
        expectRefused(
          service(),
          await service().call(method, `/v2/messages/${message.id}${path}`, { body }),
          400,
        )
      }
      expect(await read(message.id)).toEqual(message)
    },
  )

  rule('3.1: what is cancelled stays so', ['an assumption'], async () => {
    const id = idOf(await scheduleMessage(service()))
    await service().call('DELETE', `/v2/messages/${id}`)
    for (const [method, path, body] of [
      ['PUT', '', { scheduled_at: inYears(1) }],
      ['DELETE', '', undefined],
      ['PATCH', '/scheduled', { status: 'cancelled' }],
    ] as const) {
      expectRefused(service(), await service().call(method, `/v2/messages/${id}${path}`, { body }), 400)
    }
  })
})

describe('3.2 packet response', () => {
  /** A packet of three forms, sent to a new patient. */
  async function setUp() {
    const packet = await packetOf(service(), 3)
    const { responses } = await send(service(), { packet: packet.id })
    expect(responses).toHaveLength(packet.forms.length)
    return { packet, members: responses, packetResponse: await packetResponseOf(service(), responses[0].id) }
  }

  rule(
    '3.2 "packet is sent or set up": is_submitted=false, form_index=null, its responses are there',
    ['control'],
    async () => {
      const { packet, members, packetResponse } = await setUp()
      expect(packetResponse).toMatchObject({ is_submitted: false, submitted_at: null, form_index: null })
      expect(packetResponse.packet.forms.map(idOf)).toEqual(packet.forms.map(idOf))
      expect(new Set(packetResponse.responses)).toEqual(new Set(members.map(idOf)))
      for (const member of members)
        expect(member).toMatchObject({ is_submitted: false, packet: { id: packet.id } })
    },
  )

  rule(
    '3.2 "patient advances through forms": is_submitted=false, form_index>0, and it grows',
    ['control'],
    async () => {
      const { packetResponse } = await setUp()
      const seen: number[] = []
      for (let step = 0; step < 2; step += 1) {
        const now = await control(service(), 'POST', `packet-responses/${packetResponse.id}/advance`)
        expect(now.is_submitted).toBe(false)
        seen.push(now.form_index)
      }
      expect(seen[0]).toBeGreaterThan(0)
      expect(seen[1]).toBeGreaterThan(seen[0]!)
    },
  )

  rule(
    '3.2 "Every member response is stamped is_submitted=true, including forms skipped by packet logic"',
    ['control'],
    async () => {
      const { packetResponse } = await setUp()
      const now = await control(service(), 'POST', `packet-responses/${packetResponse.id}/submit`, {
        skip: [2],
      })
      expect(now).toMatchObject({ is_submitted: true })
      expect(now.submitted_at).not.toBeNull()
      const members = await Promise.all(
        now.responses.map(async (id: string) => (await service().call('GET', `/v2/responses/${id}`)).body),
      )
      expect(members.map(({ is_submitted }) => is_submitted)).toEqual(members.map(() => true))
      expect(members.map(({ is_skipped }) => is_skipped)).toEqual(members.map((_one, index) => index === 1))
      expect(members[1].answers).toEqual([])
      expect(members[0].answers).not.toEqual([])
    },
  )
})
