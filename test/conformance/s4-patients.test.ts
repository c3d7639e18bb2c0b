/** Section 4.1 of the specification: patients. */
import { describe, expect } from 'vitest'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { createPatient, PERSON } from './support/making.ts'
import { expectDone, expectRefused, idOf, some, walk } from './support/reading.ts'
import { rule } from './support/rule.ts'

const service = serviceUnderTest()
const call = (method: string, id: string, body?: unknown) =>
  service().call(method, `/v2/patients/${id}`, { body })

describe('GET /v2/patients', () => {
  rule('4.1 "list of patients": each once, and no other than those of the team', [], async () => {
    const { rows } = await walk(service(), '/v2/patients', 5)
    const ids = rows.map(idOf)
    expect(new Set(ids).size).toBe(ids.length)
    if (service().isEmulator) expect(ids).toHaveLength(60)
  })

  rule(
    '4.1 "optional search and filter query parameters": the list is narrowed to what fits',
    [],
    async (skip) => {
      const [one] = (await some(service(), '/v2/patients', skip)).filter(({ email }: Loose) => email)
      if (one === undefined) skip('no patient has an e-mail address')
      for (const query of [
        `email=${encodeURIComponent(one.email)}`,
        `search=${encodeURIComponent(one.last_name)}`,
      ]) {
        const { rows } = await walk(service(), `/v2/patients?${query}`)
        expect(rows.map(idOf)).toContain(idOf(one))
        if (service().isEmulator) expect(rows.length).toBeLessThan(60)
      }
    },
  )
})

describe('POST /v2/patients', () => {
  rule('4.1 "the created patient": it is answered, then read and listed', ['writing'], async () => {
    const patient = await createPatient(service())
    const id = idOf(patient)
    expect((await call('GET', id)).body).toEqual(patient)
    if (!service().isEmulator) return
    const { rows } = await walk(service(), `/v2/patients?email=${PERSON.email}`)
    expect(rows.map(idOf)).toContain(id)
  })

  rule('7 "validation failure or malformed input": 400, and nothing is created', ['writing'], async () => {
    const bodies = [
      { last_name: 'Example' },
      { ...PERSON, email: 'nobody' },
      { ...PERSON, date_birth: '2001-02-29' },
      { ...PERSON, patient_tags: [{ name: 'a', color: 'red' }] },
      '{',
    ]
    for (const body of bodies) {
      const reply = await service().call('POST', '/v2/patients', { body })
      expectRefused(service(), reply, 400, 'Validation error.')
    }
  })
})

describe('PUT and PATCH /v2/patients/{id}', () => {
  rule('4.1 "full update": what the body leaves out is gone', ['writing'], async () => {
    const { email: _email, city: _city, ...rest } = PERSON
    const old = await createPatient(service())
    const reply = await call('PUT', idOf(old), { ...rest, first_name: 'Changed' })
    expectDone(service(), reply, 200)
    const { body } = await call('GET', idOf(old))
    expect(body).toMatchObject({ ...rest, first_name: 'Changed' })
    expect([body.email ?? '', body.city ?? '']).toEqual(['', ''])
  })

  rule('4.1 "any subset of the patient fields": nothing else changes', ['writing'], async () => {
    const { updated_at: _before, ...old } = await createPatient(service())
    const patient_tags = [{ name: 'other', color: '#ffffff' }]
    const change = { first_name: 'Changed', patient_tags, custom_fields: { other: 'x' } }
    expectDone(service(), await call('PATCH', idOf(old), change), 200)
    const { updated_at: _after, ...now } = (await call('GET', idOf(old))).body
    expect(now).toEqual({ ...old, ...change })
  })

  rule('4.1 "the updated patient": it is what a read then answers', ['writing'], async () => {
    const old = await createPatient(service())
    for (const [method, body] of [
      ['PUT', { ...PERSON, first_name: 'Put' }],
      ['PATCH', { first_name: 'Patched' }],
    ] as const) {
      const reply = await call(method, idOf(old), body)
      const { body: now } = await call('GET', idOf(old))
      expect(now.first_name).toBe(body.first_name)
      if (reply.text !== '') expect(reply.body).toEqual(now)
    }
  })
})

describe('DELETE /v2/patients/{id}', () => {
  rule('4.1 "removal of the patient": it is not found afterwards', ['writing'], async () => {
    const id = idOf(await createPatient(service()))
    expectDone(service(), await call('DELETE', id), 204)
    for (const method of ['GET', 'DELETE']) {
      expectRefused(service(), await call(method, id), 404, 'Patient not found.')
    }
    expectRefused(service(), await call('PATCH', id, {}), 404, 'Patient not found.')
  })
})
