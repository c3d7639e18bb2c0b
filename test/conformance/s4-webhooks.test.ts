/** Sections 2.6, 2.7 and 4.6 of the specification: webhook configurations and delivery attempts. */
import { describe, expect } from 'vitest'
import { type Loose, type Reply, serviceUnderTest } from '../support/service-under-test.ts'
import { until } from './support/control.ts'
import { createPatient, subscribe } from './support/making.ts'
import { expectDone, expectRefused, idOf, NOBODY, rowsOf, walk } from './support/reading.ts'
import { openReceiver } from './support/receiver.ts'
import { CannotTell, rule, type Skip } from './support/rule.ts'

const service = serviceUnderTest()
/** An unreachable address. */
const NOWHERE = { url: 'https://receiver.invalid/hooks' }
const call = (method: string, id: string, body?: unknown): Promise<Reply> =>
  service().call(method, `/v2/webhooks/${id}`, { body })

/** A list whose path the specification does not show: a real service may use another one. */
async function listed(path: string, skip: Skip): Promise<Loose[]> {
  const reply = await service().call('GET', path)
  if (!service().isEmulator && [404, 405].includes(reply.status)) skip(`this service has no ${path}`)
  expectDone(service(), reply, 200)
  return rowsOf(reply)
}

describe('webhook configurations', () => {
  rule(
    '2.6 "signature_secret … Returned only in the response of the create operation"',
    ['writing'],
    async (skip) => {
      const { id, secret } = await subscribe(service(), NOWHERE)
      const rows = await listed('/v2/webhooks', skip)
      expect(rows.map(idOf)).toContain(id)
      const replies = [
        await call('GET', id),
        await call('PATCH', id, { is_active: false }),
        await call('PUT', id, { target_url: NOWHERE.url }),
      ]
      for (const text of [JSON.stringify(rows), ...replies.map((reply) => reply.text)]) {
        expect(text).not.toContain('signature_secret')
        expect(text).not.toContain(secret)
      }
    },
  )

  rule('2.6 "cannot be fetched later": what is listed has none', [], async (skip) => {
    for (const config of await listed('/v2/webhooks', skip))
      expect(config.signature_secret ?? null).toBeNull()
  })

  rule('4.6 "create a configuration": it is answered as it is then read', ['writing'], async () => {
    const body = {
      target_url: NOWHERE.url,
      event_types: ['created'],
      sources: ['form', 'response', 'packet'],
    }
    const reply = await service().call('POST', '/v2/webhooks', { body })
    expectDone(service(), reply, 201)
    if (reply.body === undefined) throw new CannotTell('a creation is answered without the record')
    const { signature_secret: _secret, ...created } = reply.body
    expect(created.target_url).toBe(NOWHERE.url)
    if (service().isEmulator) expect((await call('GET', idOf(created))).body).toEqual({ ...body, ...created })
    expectDone(service(), await call('DELETE', idOf(created)), 204)
  })

  rule('2.6: all event types and sources are meant when none is named', ['an assumption'], async () => {
    const { id } = await subscribe(service(), NOWHERE)
    expect((await call('GET', id)).body).toMatchObject({
      event_types: ['created', 'updated', 'deleted'],
      sources: expect.arrayContaining([
        'document',
        'form',
        'packet',
        'patient',
        'response',
        'packet_response',
      ]),
      is_active: true,
    })
  })

  rule(
    '2.6 "target_url … URL that receives the POST requests": what is no URL answers 400',
    ['writing'],
    async () => {
      for (const target_url of ['nowhere', '', null, 7, undefined]) {
        const reply = await service().call('POST', '/v2/webhooks', { body: { target_url } })
        expectRefused(service(), reply, 400)
      }
    },
  )

  rule(
    '4.6 "full update by id": what is left out is as when created, the secret stays',
    ['an assumption'],
    async () => {
      const { id } = await subscribe(service(), NOWHERE, {
        sources: ['form'],
        event_types: ['deleted'],
        is_active: false,
      })
      const target_url = 'https://other.invalid/hooks'
      const { body } = await call('PUT', id, { target_url, sources: ['patient'] })
      const event_types = ['created', 'updated', 'deleted']
      expect(body).toMatchObject({ target_url, sources: ['patient'], event_types, is_active: true })
      expectRefused(service(), await call('PUT', id, { sources: ['patient'] }), 400, 'Validation error.')
    },
  )

  rule('4.6 "partial update by id (only provided fields change)"', ['an assumption'], async () => {
    const { id } = await subscribe(service(), NOWHERE, { sources: ['form'] })
    const { updated_at: _before, ...old } = (await call('GET', id)).body
    const { updated_at: _after, ...now } = (await call('PATCH', id, { event_types: ['deleted'] })).body
    expect(now).toEqual({ ...old, event_types: ['deleted'] })
    expectRefused(service(), await call('PATCH', id, { target_url: 'nowhere' }), 400, 'Validation error.')
    expect((await call('GET', id)).body).toMatchObject(now)
  })

  rule('4.6 "list configurations of the authenticated team": of no other', ['another team'], async () => {
    const { id } = await subscribe(service(), NOWHERE)
    const { api_key, api_secret } = service().environments[0]!.teams[1]!
    const credentials = { 'X-API-KEY': api_key, 'X-API-SECRET': api_secret }
    expect(rowsOf(await service().call('GET', '/v2/webhooks', { credentials }))).toEqual([])
    for (const method of ['GET', 'DELETE']) {
      const reply = await service().call(method, `/v2/webhooks/${id}`, { credentials })
      expectRefused(service(), reply, 404, 'Webhook config not found.')
    }
    expect((await call('GET', id)).status).toBe(200)
  })

  rule('4.6 "delete by id (stops all future events to the endpoint)"', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    await using other = await openReceiver()
    const { id } = await subscribe(service(), receiver, { sources: ['patient'] })
    await subscribe(service(), other, { sources: ['patient'] })
    expectDone(service(), await call('DELETE', id), 204)
    expectRefused(service(), await call('GET', id), 404, 'Webhook config not found.')
    const patient = await createPatient(service())
    await other.next('event of the patient', ({ data }) => data.id === patient.id)
    expect(receiver.deliveries).toEqual([])
  })
})

describe('delivery attempts', () => {
  const attemptsOf = async (config: string): Promise<Loose[]> =>
    (await walk(service(), '/v2/webhooks/events?page_size=100')).rows.filter(
      (one) => one.webhook_config === config,
    )

  rule('2.7 "A record of one delivery attempt": listed with its outcome', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    const { id } = await subscribe(service(), receiver, { sources: ['patient'] })
    const patient = await createPatient(service())
    const { event } = await receiver.next('event of the patient', ({ data }) => data.id === patient.id)
    const [attempt] = await until(
      'listed',
      () => attemptsOf(id),
      (rows) => rows.length === 1,
    )
    expect(attempt).toMatchObject({
      event_id: event.id,
      event_type: 'created',
      source: 'patient',
      status: 'succeeded',
      response_status_code: 200,
      attempts: 1,
      error: null,
      next_retry_at: null,
    })
  })

  rule(
    '2.7 "used to monitor delivery status": a refused one says so, and when it is tried again',
    ['a receiver'],
    async () => {
      await using receiver = await openReceiver()
      const { id } = await subscribe(service(), receiver, { sources: ['patient'] })
      receiver.answers.push(500)
      await createPatient(service())
      const [attempt] = await until(
        'listed',
        () => attemptsOf(id),
        (rows) => rows.length > 0,
      )
      expect(attempt).toMatchObject({ status: 'failed', response_status_code: 500, attempts: 1 })
      expect(Date.parse(attempt.next_retry_at)).toBeGreaterThan(Date.parse(attempt.created_at))
    },
  )

  rule('4.6 "list webhook events (paginated delivery attempts)"', [], async (skip) => {
    const rows = await listed('/v2/webhooks/events', skip)
    expect(new Set(rows.map(idOf)).size).toBe(rows.length)
  })

  rule('4.6 "send a simulated event to the configured target URL"', ['a receiver'], async () => {
    await using receiver = await openReceiver()
    const { id } = await subscribe(service(), receiver)
    const reply = await service().call('POST', '/v2/webhooks/events/test', { body: { id } })
    expectDone(service(), reply, 200)
    const { event } = await receiver.next('tested', () => true)
    expect(reply.body).toMatchObject({
      id: event.id,
      status: 'succeeded',
      response_status_code: 200,
      error: null,
    })
    receiver.answers.push(500)
    const refused = await service().call('POST', '/v2/webhooks/events/test', { body: { id } })
    expect(refused.body).toMatchObject({ status: 'failed', response_status_code: 500 })
    expect(Object.keys(event).toSorted()).toEqual(['data', 'event_type', 'id', 'source', 'timestamp'])
  })

  rule('4.6 "errors use the detail body"', ['writing'], async () => {
    for (const [body, status, detail] of [
      [{}, 400, 'Webhook config ID is required.'],
      [{ id: NOBODY }, 404, 'Webhook config not found.'],
    ] as const) {
      expectRefused(
        service(),
        await service().call('POST', '/v2/webhooks/events/test', { body }),
        status,
        detail,
      )
    }
  })
})
