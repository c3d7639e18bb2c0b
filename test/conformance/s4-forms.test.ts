/** Section 4.3 of the specification: forms, packets and documents. */
import { describe, expect } from 'vitest'
import { serviceUnderTest } from '../support/service-under-test.ts'
import { expectRefused, idOf, NOBODY, some, walk } from './support/reading.ts'
import { rule } from './support/rule.ts'

const service = serviceUnderTest()

describe.each([
  ['forms', 'Form not found.'],
  ['packets', 'Packet not found.'],
  ['documents', 'Document not found.'],
])('/v2/%s', (resource, missing) => {
  rule(`4.3 "list of ${resource}": each once`, [], async () => {
    const ids = (await walk(service(), `/v2/${resource}`)).rows.map(idOf)
    expect(new Set(ids).size).toBe(ids.length)
    if (service().isEmulator) expect(ids.length).toBeGreaterThan(0)
  })

  rule(`4.3 "one ${resource.slice(0, -1)}": by its id, the same as in the list`, [], async (skip) => {
    for (const listed of (await some(service(), `/v2/${resource}`, skip)).slice(0, 5)) {
      const { status, body } = await service().call('GET', `/v2/${resource}/${idOf(listed)}`)
      expect([status, idOf(body), body.name]).toEqual([200, idOf(listed), listed.name])
      if (service().isEmulator) expect(body).toEqual(listed)
    }
  })

  rule(`7 "<Resource> not found.": an id that no ${resource.slice(0, -1)} has`, [], async () => {
    expectRefused(service(), await service().call('GET', `/v2/${resource}/${NOBODY}`), 404, missing)
  })

  rule('1 "read-only listing": nothing can be written', ['control'], async () => {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      expectRefused(service(), await service().call(method, `/v2/${resource}`, { body: {} }), 405)
      expectRefused(service(), await service().call(method, `/v2/${resource}/${NOBODY}`, { body: {} }), 405)
    }
  })
})
