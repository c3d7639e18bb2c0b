import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { NO_FIELDS } from '../../../../src/emulator/http/resources/patient-body.ts'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { type Caller, callerOf } from '../../caller.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 30 })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

const REFUSED = { status: 400, body: { detail: 'Validation error.' } }
const FULL = {
  first_name: 'Ann',
  last_name: 'O’Neil',
  email: 'ann@example.com',
  date_birth: '2000-02-29',
  external_id: 'X-1',
  emergency_contact: { first_name: 'C', last_name: 'D' },
  patient_tags: [
    { name: 'VIP', color: '#ff0000' },
    { name: 'b', color: '#FFaa09' },
  ],
  custom_fields: { plan: 'x' },
}

describe('a created patient', () => {
  it('is answered 201, found by id, last in the list and counted', async () => {
    const { size } = emulator.control.world().patients
    const { status, body } = await caller.send('POST', '/v2/patients', FULL)
    expect(status).toBe(201)
    expect(body).toMatchObject({ ...FULL, address: '', provider: null })
    expect((await caller.get(`/v2/patients/${body.id}`)).body).toEqual(body)
    const rows = await caller.rows('/v2/patients?page_size=10')
    expect(rows).toHaveLength(size + 1)
    expect(rows.at(-1)).toEqual(body)
  })

  it.each([
    ['no first name', { last_name: 'B' }],
    ['no last name', { first_name: 'A' }],
    ['an empty name', { first_name: '', last_name: 'B' }],
    ['a bad e-mail', { ...FULL, email: 'nobody' }],
    ['an e-mail with two dots in a row', { ...FULL, email: 'ann@example..com' }],
    ['an e-mail that ends with a dot', { ...FULL, email: 'ann@example.com.' }],
    ['a day that does not exist', { ...FULL, date_birth: '2001-02-29' }],
    ['a date of another format', { ...FULL, date_birth: '29.02.2000' }],
    ['a tag of no colour', { ...FULL, patient_tags: [{ name: 'a', color: 'red' }] }],
    ['a tag that is no object', { ...FULL, patient_tags: ['VIP'] }],
    ['a tag of no name', { ...FULL, patient_tags: [{ color: '#ff0000' }] }],
    ['a tag without a colour', { ...FULL, patient_tags: [{ name: 'a' }] }],
    ['tags that are no list', { ...FULL, patient_tags: {} }],
    ['a custom field that is no string', { ...FULL, custom_fields: { a: 1 } }],
    ['a contact that is no object', { ...FULL, emergency_contact: 'C' }],
    ['a city that is no string', { ...FULL, city: 7 }],
    ['a phone number that is no string', { ...FULL, phone_number: 5550100 }],
    ['a tag of seven digits', { ...FULL, patient_tags: [{ name: 'a', color: '#ff00001' }] }],
    ['a contact whose name is no string', { ...FULL, emergency_contact: { first_name: 7 } }],
    ['no object', []],
    ['no JSON', '{'],
  ])('is refused with %s', async (_title, body) => {
    const { size } = emulator.control.world().patients
    const reply = await caller.send('POST', '/v2/patients', body)
    expect({ status: reply.status, body: reply.body }).toEqual(REFUSED)
    expect(emulator.control.world().patients.size).toBe(size)
  })
})

it('a field that a patient does not have is ignored', async () => {
  const given = { ...FULL, id: 'mine', created_at: '2020-01-01T00:00:00Z', toString: 7, nickname: 'x' }
  const { status, body } = await caller.send('POST', '/v2/patients', given)
  expect(status).toBe(201)
  expect(body).toMatchObject(FULL)
  expect(body.id).not.toBe('mine')
  expect(body.created_at > '2025').toBe(true)
  expect(body).not.toHaveProperty('nickname')
  expect(Object.hasOwn(body, 'toString')).toBe(false)
})

it.each(['a@b.de', 'a@b.c.de', 'a.b+c@d-e.f.g.museum', "o'neil@EXAMPLE.com", 'ä@ö.de', '1@2.3'])(
  'a patient and a message may have the address %s',
  async (email) => {
    const { status, body } = await caller.send('POST', '/v2/patients', { ...FULL, email })
    expect([status, body.email]).toEqual([201, email])
  },
)

it('a patient may have nulls and empty texts in the place of optional parts', async () => {
  const contact = { first_name: 'C', last_name: null, city: '' }
  const nothing = { email: '', date_birth: '', phone_number: null, address: null, patient_tags: null }
  const fields = { ...FULL, ...nothing, custom_fields: null, emergency_contact: contact }
  const { status, body } = await caller.send('POST', '/v2/patients', fields)
  expect(status).toBe(201)
  expect(body).toMatchObject({
    email: '',
    date_birth: null,
    phone_number: null,
    address: '',
    patient_tags: [],
  })
  expect([body.custom_fields, body.emergency_contact]).toEqual([{}, { first_name: 'C', city: '' }])
})

describe('a changed patient', () => {
  it('loses the fields that a PUT omits, and keeps its id and creation time', async () => {
    const [old] = await caller.rows('/v2/patients')
    const { status, body } = await caller.send('PUT', `/v2/patients/${old.id}`, {
      first_name: 'A',
      last_name: 'B',
    })
    expect(status).toBe(200)
    const { updated_at } = body
    const own = { id: old.id, created_at: old.created_at, updated_at }
    expect(body).toEqual({ ...NO_FIELDS, first_name: 'A', last_name: 'B', ...own })
    expect(updated_at > old.updated_at).toBe(true)
    const again = (await caller.send('PUT', `/v2/patients/${old.id}`, FULL)).body
    expect(again).toEqual({ ...NO_FIELDS, ...FULL, ...own, updated_at: again.updated_at })
    for (const name of ['first_name', 'last_name'])
      expect((await caller.send('PUT', `/v2/patients/${old.id}`, { [name]: 'A' })).status).toBe(400)
  })

  it('has each field of a PATCH replaced as a whole, and no other field', async () => {
    const { body: made } = await caller.send('POST', '/v2/patients', FULL)
    const { body } = await caller.send('PATCH', `/v2/patients/${made.id}`, {
      custom_fields: { other: 'y' },
      city: 'Ulm',
    })
    expect(body).toEqual({ ...made, custom_fields: { other: 'y' }, city: 'Ulm', updated_at: body.updated_at })
    const refused = await caller.send('PATCH', `/v2/patients/${made.id}`, { city: 'Bonn', email: 'x' })
    expect({ status: refused.status, body: refused.body }).toEqual(REFUSED)
    expect((await caller.get(`/v2/patients/${made.id}`)).body.city).toBe('Ulm')
  })
})

describe('a deleted patient', () => {
  it('is answered 204, then 404, and moves later rows up by one', async () => {
    const before = await caller.rows('/v2/patients?page_size=7')
    const gone = [before[0], before[12], before[29]]
    for (const { id } of gone) {
      expect(await caller.send('DELETE', `/v2/patients/${id}`)).toMatchObject({ status: 204, text: '' })
      expect((await caller.get(`/v2/patients/${id}`)).body).toEqual({ detail: 'Patient not found.' })
      expect((await caller.send('DELETE', `/v2/patients/${id}`)).status).toBe(404)
    }
    expect(await caller.rows('/v2/patients?page_size=7')).toEqual(before.filter((row) => !gone.includes(row)))
  })

  it('makes a caller who pages through the list skip a row, as in a real service', async () => {
    const before = await caller.rows('/v2/patients')
    await caller.get('/v2/patients?page_size=10')
    emulator.control.deletePatient(before[3].id)
    const { body } = await caller.get('/v2/patients?page_size=10&page=2')
    expect(body.results[0]).toEqual(before[11])
    expect(body.count).toBe(before.length - 1)
  })
})

describe('filters', () => {
  it('show exactly the rows that satisfy them, over all pages', async () => {
    const all = await caller.rows('/v2/patients')
    const { first_name, external_id } = all.find((one) => one.external_id !== null)
    const query = `first_name=${encodeURIComponent(first_name)}&page_size=1`
    expect(await caller.rows(`/v2/patients?${query}`)).toEqual(
      all.filter((one) => one.first_name === first_name),
    )
    expect(await caller.rows(`/v2/patients?external_id=${external_id}`)).toHaveLength(1)
    expect(await caller.rows('/v2/patients?email=nobody@example.com')).toEqual([])
  })

  it('are by each field to the letter, and narrow each other', async () => {
    const both = { email: 'zoe@example.com', phone_number: '5550177', external_id: 'Z-9' }
    const { body } = await caller.send('POST', '/v2/patients', { ...FULL, ...both, last_name: 'Zzyzx' })
    await caller.send('POST', '/v2/patients', { ...FULL, last_name: 'Other' })
    const ids = async (query: string) => (await caller.rows(`/v2/patients?${query}`)).map(({ id }) => id)
    for (const [name, value] of Object.entries({ ...both, last_name: 'Zzyzx' })) {
      expect([name, await ids(`${name}=${value}`)]).toEqual([name, [body.id]])
      expect(await ids(`${name}=${value.slice(1)}`)).toEqual([])
    }
    expect(await ids('first_name=Ann&last_name=Zzyzx')).toEqual([body.id])
    expect(await ids('first_name=Bob&last_name=Zzyzx')).toEqual([])
    expect(await ids('search=ann&last_name=Zzyzx')).toEqual([body.id])
  })

  it('search covers names, e-mail, phone and external id, and ignores case', async () => {
    const one = { ...FULL, last_name: 'Zzyzx-Quill', email: 'canary@example.com', phone_number: '+49 4711' }
    await caller.send('POST', '/v2/patients', one)
    for (const text of ['zzyzx', 'QUILL', 'x-1', 'Canary', '4711', 'ann zzyzx', 'nn ZZ']) {
      const rows = await caller.rows(`/v2/patients?search=${encodeURIComponent(text)}`)
      expect(rows.map(({ last_name }) => last_name)).toContain('Zzyzx-Quill')
      expect(rows.length).toBeLessThan(emulator.control.world().patients.size)
    }
  })
})

it('every change is reported to subscribers after it can be read', async () => {
  const events: string[] = []
  const { patients } = emulator.control.world()
  emulator.control.world().subscribe(({ source, type, id }) => {
    events.push(`${source} ${type} ${patients.get(id) === undefined ? 'gone' : 'there'}`)
  })
  const { body } = await caller.send('POST', '/v2/patients', FULL)
  await caller.send('PATCH', `/v2/patients/${body.id}`, { city: 'Ulm' })
  await caller.send('DELETE', `/v2/patients/${body.id}`)
  expect(events).toEqual(['patient created there', 'patient updated there', 'patient deleted gone'])
})
