/** Section 9 of the specification: versioning. Exports of v2.1 are in s4-exports-flat.test.ts. */
import { expect } from 'vitest'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { expectDone, idOf, rowsOf, walk } from './support/reading.ts'
import { rule } from './support/rule.ts'

const service = serviceUnderTest()
const NEW = { 'X-API-VERSION': 'v2.1' }
const fieldsOf = ({ input_fields }: Loose): readonly Loose[] =>
  Array.isArray(input_fields) ? input_fields : Object.values(input_fields ?? {})

rule('9 "The version v2 is part of every path": without it nothing is found', [], async () => {
  for (const path of ['/patients', '/v1/patients', '/v3/patients']) {
    expect((await service().call('GET', path)).status).toBeGreaterThanOrEqual(400)
  }
})

rule(
  '9 "Without the header the legacy shapes are returned": documents have no input_fields',
  [],
  async () => {
    for (const document of rowsOf(await service().call('GET', '/v2/documents'))) {
      expect(document).not.toHaveProperty('input_fields')
    }
  },
)

rule('9 "GET /v2/documents adds input_fields to each document"', [], async (skip) => {
  const { rows } = await walk(service(), '/v2/documents', 3, NEW)
  if (rows.length === 0) skip('the team has no documents')
  // A real service may omit empty ones.
  const without = rows.filter((document) => !Object.hasOwn(document, 'input_fields'))
  expect(without.length).toBeLessThan(rows.length)
  if (!service().isEmulator) return
  expect(without).toEqual([])
  expect(rows.flatMap(fieldsOf).length).toBeGreaterThan(0)
})

rule('9: one document has input_fields on the same terms as the list', ['control'], async () => {
  const [listed] = rowsOf(await service().call('GET', '/v2/documents', { headers: NEW }))
  const path = `/v2/documents/${idOf(listed)}`
  expect((await service().call('GET', path, { headers: NEW })).body).toEqual(listed)
  expect((await service().call('GET', path)).body).not.toHaveProperty('input_fields')
})

rule('9 "An optional request header X-API-VERSION": other lists are the same with it', [], async () => {
  for (const resource of ['patients', 'forms', 'packets', 'responses']) {
    const plain = await service().call('GET', `/v2/${resource}`)
    const versioned = await service().call('GET', `/v2/${resource}`, { headers: NEW })
    expectDone(service(), versioned, 200)
    if (service().isEmulator) expect(versioned.text).toBe(plain.text)
  }
})
