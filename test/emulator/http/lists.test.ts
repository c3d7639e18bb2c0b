import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { QUESTION_TYPES } from '../../../src/emulator/world/records.ts'
import { type Caller, callerOf } from '../caller.ts'

const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id)

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 523, pageSize: 50 })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

describe('a list', () => {
  it.each([1, 7, 100, 523, 524, 1000])(
    'shows every record once at page size %i, and counts them',
    async (size) => {
      const total = size === 1 ? 12 : 523
      const path = size === 1 ? '/v2/forms' : '/v2/patients'
      const rows = await caller.rows(`${path}?page_size=${size}`)
      expect(new Set(idsOf(rows)).size).toBe(total)
      expect(rows).toHaveLength(total)
      expect((await caller.get(`${path}?page_size=${size}`)).body.count).toBe(total)
    },
  )

  it('has the page size of the command line, and silently caps sizes above 1000', async () => {
    expect((await caller.get('/v2/patients')).body.results).toHaveLength(50)
    for (const size of ['junk', '0', '-1', ''])
      expect((await caller.get(`/v2/patients?page_size=${size}`)).body.results).toHaveLength(50)
    await using many = await startEmulator({ port: 0, patients: 1200 })
    expect((await callerOf(many).get('/v2/patients?page_size=5000')).body.results).toHaveLength(1000)
    await using wide = await startEmulator({ port: 0, patients: 1200, pageSize: 1100 })
    for (const query of ['', '?page_size=5000'])
      expect((await callerOf(wide).get(`/v2/patients${query}`)).body.results).toHaveLength(1100)
  })

  it('can be paged by limit and offset as well', async () => {
    const rows = await caller.rows('/v2/patients?limit=100&offset=23')
    expect(rows).toHaveLength(500)
    expect((await caller.get('/v2/patients?limit=10&offset=9999')).body.results).toEqual([])
    const links = async (offset: number) => {
      const { next, previous } = (await caller.get(`/v2/patients?limit=100&offset=${offset}`)).body
      return [next, previous].map((link) => (link === null ? null : new URL(link).searchParams.get('offset')))
    }
    expect(await links(0)).toEqual(['100', null])
    expect(await links(150)).toEqual(['250', '50'])
    expect(await links(23)).toEqual(['123', '0'])
    expect(await links(423)).toEqual([null, '323'])
  })

  it('that ignores filters has its pages, and an export its format', async () => {
    await using other = await startEmulator({ port: 0, patients: 7, responses: 0, shape: 'filters-ignored' })
    const { get, send, rows } = callerOf(other)
    expect((await get('/v2/patients?email=x&page_size=5&page=2')).body.results).toHaveLength(2)
    expect((await get('/v2/patients?search=x&limit=3&offset=1')).body.results).toHaveLength(3)
    const [{ id }] = await rows('/v2/export-csv')
    const { headers } = await send('POST', '/v2/export-csv?type=raw_text', { id })
    expect(headers.get('content-type')).toMatch(/^text\/plain/)
    await using scrolled = await startEmulator({ port: 0, patients: 7, shape: 'filters-ignored+cursor' })
    expect(new Set(idsOf(await callerOf(scrolled).rows('/v2/patients?page_size=3&email=x'))).size).toBe(7)
  })

  it('has absolute links that keep the caller’s query, and none at either end', async () => {
    const { body } = await caller.get('/v2/patients?page=2&page_size=100&unknown=x')
    expect(body.next).toBe(`${caller.baseUrl}/v2/patients?page=3&page_size=100&unknown=x`)
    expect(body.previous).toBe(`${caller.baseUrl}/v2/patients?page=1&page_size=100&unknown=x`)
    expect((await caller.get('/v2/patients?page=last&page_size=100')).body.next).toBeNull()
    expect((await caller.get('/v2/patients')).body.previous).toBeNull()
  })

  it('links to the address of the request if an HTTP/1.0 caller names no host', async () => {
    const { hostname, port } = new URL(caller.baseUrl)
    const { api_key, api_secret } = emulator.environments[0]!.teams[0]!
    const socket = connect(Number(port), hostname)
    socket.end(`GET /v2/patients HTTP/1.0\r\nX-API-KEY: ${api_key}\r\nX-API-SECRET: ${api_secret}\r\n\r\n`)
    const answer = await text(socket)
    expect(answer).toContain(`"next":"${caller.baseUrl}/v2/patients?page=2"`)
  })

  it.each(['12', '0', '-1', 'x', '1.5', ''])('has no page "%s"', async (page) => {
    const { status, body } = await caller.get(`/v2/patients?page=${page}`)
    expect({ status, body }).toEqual({ status: 404, body: { detail: 'Invalid page.' } })
  })

  it('that is empty has one empty page', async () => {
    await using empty = await startEmulator({ port: 0, patients: 0, forms: 0, packets: 0, documents: 0 })
    for (const resource of ['patients', 'forms', 'packets', 'documents']) {
      const { body } = await callerOf(empty).get(`/v2/${resource}`)
      expect(body).toEqual({ count: 0, next: null, previous: null, results: [] })
    }
  })

  it('shows each record as its own address does', async () => {
    for (const resource of ['patients', 'forms', 'packets', 'documents']) {
      const rows = (await caller.rows(`/v2/${resource}`)).slice(0, 20)
      for (const row of rows) expect((await caller.get(`/v2/${resource}/${row.id}`)).body).toEqual(row)
    }
  })
})

describe('the world', () => {
  it('is the same for the same seed, credentials included, and differs for another seed', async () => {
    await using same = await startEmulator({ port: 0, patients: 523 })
    await using other = await startEmulator({ port: 0, patients: 523, seed: 2 })
    const [a, b, c] = await Promise.all(
      [emulator, same, other].map((one) => callerOf(one).rows('/v2/patients?page_size=1000')),
    )
    expect(b).toEqual(a)
    expect(new Set([...idsOf(a!), ...idsOf(c!)]).size).toBe(1046)
    expect(same.environments[1]!.teams).toEqual(emulator.environments[1]!.teams)
  })

  it('has the same records, however many there are', async () => {
    await using large = await startEmulator({ port: 0, patients: 5_000_000 })
    const [mine] = await caller.rows('/v2/patients')
    expect((await callerOf(large).get(`/v2/patients/${mine.id}`)).body).toEqual(mine)
    const last = (await callerOf(large).get('/v2/patients?page=last&page_size=3')).body.results.at(-1)
    expect((await callerOf(large).get(`/v2/patients/${last.id}`)).body).toEqual(last)
  })

  it('has every optional part of a patient missing, empty, partial and full', async () => {
    const patients = await caller.rows('/v2/patients?page_size=1000')
    const contacts = patients.map((one) => one.emergency_contact)
    expect(contacts).toContain(null)
    expect(contacts.some((one) => one !== null && !('city' in one))).toBe(true)
    expect(contacts.some((one) => one !== null && 'city' in one)).toBe(true)
    expect(new Set(patients.map((one) => one.patient_tags.length))).toEqual(new Set([0, 1, 2, 3]))
    expect(patients.some((one) => Object.keys(one.custom_fields).length === 0)).toBe(true)
    expect(patients.some((one) => Object.keys(one.custom_fields).length > 2)).toBe(true)
    for (const name of ['external_id', 'email', 'phone_number', 'date_birth', 'sex_at_birth', 'provider']) {
      expect(new Set(patients.map((one) => one[name] === null))).toEqual(new Set([true, false]))
    }
    for (const one of patients) {
      expect(Date.parse(one.created_at)).toBeLessThanOrEqual(Date.parse(one.updated_at))
      expect(one.updated_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$/)
    }
  })

  it('has every question type, blocks whose members name them, and continuous orders', async () => {
    const forms = await caller.rows('/v2/forms')
    const questions = forms.flatMap((form) => form.questions)
    expect(new Set(questions.map((one) => one.question_type.question_type))).toEqual(new Set(QUESTION_TYPES))
    for (const form of forms) {
      expect(form.questions.map((one: { order: number }) => one.order)).toEqual(
        form.questions.map((_: unknown, at: number) => at + 1),
      )
      for (const one of form.questions.filter((each: { block?: string }) => each.block !== undefined)) {
        expect(idsOf(form.questions)).toContain(one.block)
      }
    }
    const ids = questions.flatMap((one) => [one, ...one.choices, ...(one.rows ?? []), ...(one.columns ?? [])])
    expect(new Set(idsOf(ids)).size).toBe(ids.length)
  })

  it('has input fields in documents for v2.1 only, in the list and by id', async () => {
    const headers = { ...caller.credentials, 'X-API-VERSION': 'v2.1' }
    const [row] = (await caller.get('/v2/documents', headers)).body.results
    expect(row.input_fields.length).toBeGreaterThan(0)
    expect((await caller.get(`/v2/documents/${row.id}`, headers)).body).toEqual(row)
    expect((await caller.get(`/v2/documents/${row.id}`)).body).not.toHaveProperty('input_fields')
  })
})
