/** Section 7 of the specification: errors. 401 and 403 are in s5-authentication.test.ts, 429 in s8-limits.test.ts. */
import { describe, expect } from 'vitest'
import { serviceUnderTest } from '../support/service-under-test.ts'
import { expectRefused, NOBODY } from './support/reading.ts'
import { rule } from './support/rule.ts'

const service = serviceUnderTest()

const NOT_FOUND = [
  ['GET', `/v2/patients/${NOBODY}`, 'Patient not found.'],
  ['GET', `/v2/messages/${NOBODY}`, 'Message not found.'],
  ['GET', `/v2/forms/${NOBODY}`, 'Form not found.'],
  ['GET', `/v2/packets/${NOBODY}`, 'Packet not found.'],
  ['GET', `/v2/documents/${NOBODY}`, 'Document not found.'],
  ['GET', `/v2/responses/${NOBODY}`, 'Response not found.'],
] as const

const WRITES = [
  ['PUT', `/v2/patients/${NOBODY}`, 'Patient not found.'],
  ['PATCH', `/v2/patients/${NOBODY}`, 'Patient not found.'],
  ['DELETE', `/v2/patients/${NOBODY}`, 'Patient not found.'],
  ['PUT', `/v2/messages/${NOBODY}`, 'Message not found.'],
  ['DELETE', `/v2/messages/${NOBODY}`, 'Message not found.'],
  ['PATCH', `/v2/messages/${NOBODY}/scheduled`, 'Message not found.'],
  ['PUT', `/v2/webhooks/${NOBODY}`, 'Webhook config not found.'],
  ['PATCH', `/v2/webhooks/${NOBODY}`, 'Webhook config not found.'],
  ['DELETE', `/v2/webhooks/${NOBODY}`, 'Webhook config not found.'],
  ['POST', '/v2/webhooks/events/test', 'Webhook config not found.'],
] as const

const WHOLE = {
  id: NOBODY,
  first_name: 'A',
  last_name: 'B',
  status: 'cancelled',
  target_url: 'https://receiver.example.org/hooks',
}

describe('404', () => {
  for (const [method, path, detail] of NOT_FOUND) {
    rule(`7 "<Resource> not found.": ${method} ${path.replace(NOBODY, '{id}')}`, [], async () => {
      expectRefused(service(), await service().call(method, path), 404, detail)
    })
  }

  for (const [method, path, detail] of WRITES) {
    rule(`7 "<Resource> not found.": ${method} ${path.replace(NOBODY, '{id}')}`, ['writing'], async () => {
      const body = method === 'DELETE' ? undefined : WHOLE
      expectRefused(service(), await service().call(method, path, { body }), 404, detail)
    })
  }

  rule('7 "<Resource> not found.": an export that no team has', [], async () => {
    const reply = await service().call('POST', '/v2/export-csv', { body: { id: NOBODY } })
    expectRefused(service(), reply, 404, service().isEmulator ? 'Export not found.' : undefined)
  })
})

describe('400', () => {
  rule('7 "Webhook config ID is required."', ['writing'], async () => {
    const reply = await service().call('POST', '/v2/webhooks/events/test', { body: {} })
    expectRefused(service(), reply, 400, 'Webhook config ID is required.')
  })

  rule('7 "malformed input": a body that is no JSON', ['writing'], async () => {
    for (const path of ['/v2/patients', '/v2/messages', '/v2/webhooks']) {
      const reply = await service().call('POST', path, { body: '{"' })
      expectRefused(service(), reply, 400)
    }
  })
})

rule('7 "Error bodies have one field: {"detail": <string>}": unknown paths and methods too', [], async () => {
  const replies = [
    [await service().call('GET', '/v2/nothing'), 404],
    [await service().call('POST', '/v2/forms', { body: {} }), 405],
    [await service().call('GET', '/v2/forms', { credentials: {} }), 401],
    [await service().call('GET', `/v2/forms/${NOBODY}`), 404],
  ] as const
  // The specification does not define the answer of a real service to an unknown path or method.
  for (const [reply, status] of replies.slice(service().isEmulator ? 0 : 2)) {
    expectRefused(service(), reply, status)
    expect(reply.headers.get('content-type')).toMatch(/^application\/json/)
  }
})
