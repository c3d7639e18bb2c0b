/** Sections 5.7 and 6 of the specification: signed events. */
import { spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { describe, expect } from 'vitest'
import { awayFromTheHour } from '../support/hour.ts'
import { eventProblems } from '../support/openapi.ts'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { control, passTime } from './support/control.ts'
import { createPatient, firstId, subscribe } from './support/making.ts'
import { TIMESTAMP, UUID } from './support/reading.ts'
import { type Delivery, openReceiver, type Receiver } from './support/receiver.ts'
import { rule } from './support/rule.ts'
import { packetOf, packetResponseOf, send } from './support/sending.ts'

const service = serviceUnderTest()
const read = async (path: string): Promise<Loose> => (await service().call('GET', path)).body
const about = (id: string, type?: string) => (event: Loose) =>
  event.data?.id === id && (type === undefined || event.event_type === type)

/** One delivery of a new patient. */
async function delivery(receiver: Receiver): Promise<Delivery & { readonly secret: string }> {
  const { secret } = await subscribe(service(), receiver, { sources: ['patient'] })
  const { id } = await createPatient(service(), { last_name: 'Müller “x”' })
  return { ...(await receiver.next('event of the patient', about(id))), secret }
}

describe('delivery', () => {
  rule('6 "an HTTP POST with a JSON body to the configuration’s target_url"', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    const { method, path, headers } = await delivery(receiver)
    expect([method, path]).toEqual(['POST', new URL(receiver.url).pathname])
    expect(headers['content-type']).toMatch(/^application\/json/)
  })

  rule('6 "Envelope: id (UUID), timestamp, event_type, source, data"', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    const before = Date.now()
    const { event } = await delivery(receiver)
    expect(Object.keys(event).toSorted()).toEqual(['data', 'event_type', 'id', 'source', 'timestamp'])
    expect(event.id).toMatch(UUID)
    expect(event.timestamp).toMatch(TIMESTAMP)
    expect(event.timestamp).toMatch(/Z$/)
    expect(Date.parse(event.timestamp)).toBeGreaterThan(before - 5000)
  })

  rule(
    '5.7 "HMAC-SHA256 over the exact raw bytes … hex-encoded, sent in the request header X-Service-Signature"',
    ['a receiver'],
    async () => {
      await using receiver = await openReceiver()
      const { headers, bytes, secret } = await delivery(receiver)
      expect(headers['x-service-signature']).toBe(createHmac('sha256', secret).update(bytes).digest('hex'))
    },
  )

  rule('5.7: `openssl dgst -sha256 -hmac` reproduces the signature', ['a receiver', 'openssl'], async () => {
    await using receiver = await openReceiver()
    const { headers, bytes, secret } = await delivery(receiver)
    const { stdout } = spawnSync('openssl', ['dgst', '-sha256', '-hmac', secret], {
      input: bytes,
      encoding: 'utf8',
    })
    expect(stdout.trim().split(' ').at(-1)).toBe(headers['x-service-signature'])
  })

  rule('6 "answer with a 2xx status to acknowledge": it is sent once', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    receiver.answers.push(204)
    const { event } = await delivery(receiver)
    await passTime(service(), 7200)
    const { id } = await createPatient(service())
    await receiver.next('event of the other patient', about(id))
    expect(receiver.deliveries.filter((one) => one.event.id === event.id)).toHaveLength(1)
  })

  rule(
    '6 "deduplicate by the envelope id because retries may occur": a refused event comes again under its id',
    ['a receiver'],
    async () => {
      await using receiver = await openReceiver()
      receiver.answers.push(500, 503)
      const { event, secret } = await delivery(receiver)
      for (const [attempt, seconds] of [
        [1, 6],
        [2, 31],
      ] as const) {
        await passTime(service(), seconds)
        const again = await receiver.next('tried again', ({ id }) => id === event.id, attempt)
        expect(again.event).toEqual(event)
        const signature = createHmac('sha256', secret).update(again.bytes).digest('hex')
        expect(again.headers['x-service-signature']).toBe(signature)
      }
    },
  )

  rule('6 "data … at the latest persisted state at delivery time"', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    receiver.answers.push(500)
    const { event } = await delivery(receiver)
    const path = `/v2/patients/${event.data.id}`
    await service().call('PATCH', path, { body: { city: 'Newtown' } })
    await passTime(service(), 6)
    const again = await receiver.next('tried again', ({ id }) => id === event.id, 1)
    expect(again.event).toEqual({ ...event, data: await read(path) })
    expect(again.event.data.city).toBe('Newtown')
  })
})

describe('reported changes', () => {
  rule('2.6 "A configuration selects event types and source entities"', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    await using all = await openReceiver()
    await subscribe(service(), receiver, { sources: ['patient'], event_types: ['deleted'] })
    await subscribe(service(), all)
    const { id } = await createPatient(service())
    await service().call('PATCH', `/v2/patients/${id}`, { body: { city: 'Newtown' } })
    await service().call('DELETE', `/v2/patients/${id}`)
    await receiver.next('event of the deletion', ({ event_type }) => event_type === 'deleted')
    await all.next('event of the deletion', ({ event_type }) => event_type === 'deleted')
    expect(receiver.deliveries.map(({ event }) => event.event_type)).toEqual(['deleted'])
    expect(new Set(all.deliveries.map(({ event }) => event.event_type))).toEqual(
      new Set(['created', 'updated', 'deleted']),
    )
  })

  rule('6 "patient as GET /v2/patients/{id}"', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    const { event, bytes } = await delivery(receiver)
    expect(event.data).toEqual(await read(`/v2/patients/${event.data.id}`))
    expect(eventProblems('patient', bytes.toString('utf8'))).toEqual([])
  })

  rule(
    '6 "response as GET /v2/responses/{id}": asked for, saved, submitted, archived, deleted',
    ['a receiver'],
    async () => {
      await using receiver = await openReceiver()
      await subscribe(service(), receiver, { sources: ['response'] })
      const { responses } = await send(service(), { form: await firstId(service(), '/v2/forms') })
      const { id } = responses[0]
      const path = `/v2/responses/${id}`
      // The addresses of files may be others every hour.
      await awayFromTheHour()
      await receiver.next('event of the request', about(id, 'created'))
      for (const act of ['answers', 'submit', 'archive']) {
        const before = receiver.deliveries.length
        await control(service(), 'POST', `responses/${id}/${act}`, {})
        const { event } = await receiver.next(`event of ${act}`, about(id, 'updated'), before)
        expect(event.data).toEqual(await read(path))
      }
      await control(service(), 'DELETE', `responses/${id}`)
      await receiver.next('event of the deletion', ({ event_type }) => event_type === 'deleted')
      for (const { bytes } of receiver.deliveries)
        expect(eventProblems('response', bytes.toString('utf8'))).toEqual([])
    },
  )
})

describe('packet_response', () => {
  rule(
    '3.2, 6: set up with form_index=null, then progress, then submission, each an updated event',
    ['a receiver'],
    async () => {
      await using receiver = await openReceiver()
      await subscribe(service(), receiver, { sources: ['packet_response'] })
      const packet = await packetOf(service(), 3)
      const { responses } = await send(service(), { packet: packet.id })
      const { id } = await packetResponseOf(service(), responses[0].id)
      const setUp = await receiver.next('event of the set-up', about(id))
      expect(setUp.event.data).toMatchObject({ is_submitted: false, submitted_at: null, form_index: null })
      expect(setUp.event.data.packet).toMatchObject({ id: packet.id, name: packet.name })
      expect(setUp.event.data.packet.forms[0].questions.length).toBeGreaterThan(0)
      await control(service(), 'POST', `packet-responses/${id}/advance`)
      const progress = await receiver.next(
        'event of progress',
        ({ data }) => data.id === id && data.form_index > 0,
      )
      expect(progress.event.data.is_submitted).toBe(false)
      await control(service(), 'POST', `packet-responses/${id}/submit`, { skip: [3] })
      const done = await receiver.next(
        'event of the submission',
        ({ data }) => data.id === id && data.is_submitted,
      )
      expect(done.event.data.submitted_at).toMatch(TIMESTAMP)
      for (const { event, bytes } of receiver.deliveries) {
        expect([event.event_type, event.source]).toEqual(['updated', 'packet_response'])
        expect(eventProblems('packet_response', bytes.toString('utf8'))).toEqual([])
      }
    },
  )

  rule(
    '6 rule 4 "A member … can have is_submitted=true without being answered; … read is_skipped"',
    ['a receiver'],
    async () => {
      await using receiver = await openReceiver()
      await subscribe(service(), receiver, { sources: ['packet_response'] })
      const packet = await packetOf(service(), 3)
      const { responses } = await send(service(), { packet: packet.id })
      const { id } = await packetResponseOf(service(), responses[0].id)
      await control(service(), 'POST', `packet-responses/${id}/submit`, { skip: [1] })
      const { event } = await receiver.next(
        'event of the submission',
        ({ data }) => data.id === id && data.is_submitted,
      )
      const [skipped, answered] = event.data.responses
      expect(await read(`/v2/responses/${skipped}`)).toMatchObject({
        is_submitted: true,
        is_skipped: true,
        answers: [],
      })
      expect(await read(`/v2/responses/${answered}`)).toMatchObject({ is_submitted: true, is_skipped: false })
    },
  )

  rule(
    '6 "Member responses": they can be fetched as soon as the set-up is reported',
    ['a receiver'],
    async () => {
      await using receiver = await openReceiver()
      await subscribe(service(), receiver, { sources: ['packet_response'] })
      const packet = await packetOf(service(), 3)
      await send(service(), { packet: packet.id })
      const { event } = await receiver.next('event of the set-up', ({ data }) => data.packet.id === packet.id)
      for (const id of event.data.responses)
        expect((await service().call('GET', `/v2/responses/${id}`)).status).toBe(200)
    },
  )
})
