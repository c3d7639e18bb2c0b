import { beforeAll, describe, expect, it } from 'vitest'
import { startEmulator } from '../../../src/emulator/server.ts'
import { SHAPE_NAMES, shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import { type Caller, callerOf, type Loose, type Reply } from '../caller.ts'

const RESOURCES = ['patients', 'forms', 'packets', 'documents', 'messages', 'responses'] as const
const SIZES = { port: 0, patients: 23, responses: 30, pageSize: 10 }

type Rows = Loose[]

/** Rows of one answer, whatever wraps them. */
function rowsOf({ body }: Reply, resource: string): Rows {
  if (Array.isArray(body)) return body
  return body.results ?? body.data ?? body.items ?? body[resource]
}

/** Where the next page is, as a query of the same path. */
function nextOf({ body, headers }: Reply): string | null {
  const link = /<([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
  const next: string | null = link ?? (Array.isArray(body) ? null : (body.next ?? null))
  return next === null ? null : next.slice(next.indexOf('?'))
}

async function walk(caller: Caller, resource: string, slash: string): Promise<Rows> {
  const rows: Rows = []
  for (let query: string | null = '?page_size=7'; query !== null; ) {
    const reply: Reply = await caller.get(`/v2/${resource}${slash}${query}`)
    expect({ status: reply.status, isJson: reply.body !== undefined }).toEqual({ status: 200, isJson: true })
    rows.push(...rowsOf(reply, resource))
    query = nextOf(reply)
  }
  return rows
}

/** How many records each list holds, in whatever shape. */
const counts: Record<string, number> = {}

beforeAll(async () => {
  await using plain = await startEmulator(SIZES)
  for (const resource of RESOURCES) counts[resource] = (await callerOf(plain).rows(`/v2/${resource}`)).length
})

describe.each(['default', 'random', ...SHAPE_NAMES])('shape %s', (shape) => {
  it('serves every record of every list once, and each by its id', async () => {
    await using emulator = await startEmulator({ ...SIZES, shape })
    const caller = callerOf(emulator)
    const slash = shape === 'trailing-slash' ? '/' : ''
    for (const resource of RESOURCES) {
      const rows = await walk(caller, resource, slash)
      const ids = rows.map((row) => row.id ?? row.uid)
      expect(ids).not.toContain(undefined)
      if (shape !== 'huge-ids') expect(new Set(ids).size).toBe(counts[resource])
      expect(rows).toHaveLength(counts[resource]!)
      if (shape === 'huge-ids') continue
      const { status, body } = await caller.get(`/v2/${resource}/${ids.at(-1)}${slash}`)
      expect({ status, id: body.id ?? body.uid }).toEqual({ status: 200, id: ids.at(-1) })
    }
  })
})

async function first(shape: string, resource: string, query = ''): Promise<Reply> {
  await using emulator = await startEmulator({ ...SIZES, shape })
  const caller = callerOf(emulator)
  return await caller.get(`/v2/${resource}${query}`, { ...caller.credentials, 'X-API-VERSION': 'v2.1' })
}

describe('the shape', () => {
  it('bare-array returns the whole list, or a page if one is requested', async () => {
    expect((await first('bare-array', 'patients')).body).toHaveLength(23)
    expect((await first('bare-array', 'patients', '?page=3')).body).toHaveLength(3)
  })

  it('next-… names another host, no port, a path, or a query', async () => {
    const next = async (shape: string) => (await first(shape, 'patients')).body.next
    expect(await next('next-http')).toBe('http://intake-backend.internal/v2/patients?page=2')
    expect(await next('next-no-port')).toBe('http://127.0.0.1/v2/patients?page=2')
    expect(await next('next-relative')).toBe('/v2/patients?page=2')
    expect(await next('next-query')).toBe('?page=2')
  })

  it('empty-past-end answers 200 with no rows', async () => {
    const { status, body } = await first('empty-past-end', 'patients', '?page=99')
    expect({ status, results: body.results }).toEqual({ status: 200, results: [] })
  })

  it('cursor refuses a bad cursor with 404, cursor-400 with 400', async () => {
    expect(await first('cursor', 'patients', '?cursor=zzz')).toMatchObject({
      status: 404,
      body: { detail: 'Invalid cursor' },
    })
    expect((await first('cursor-400', 'patients', '?cursor=zzz')).status).toBe(400)
  })

  it('huge-ids are taken back from bodies as the numbers they are', async () => {
    await using emulator = await startEmulator({ ...SIZES, shape: 'huge-ids' })
    const caller = callerOf(emulator)
    const idIn = async (path: string) => /"id":(\d+)/.exec((await caller.get(path)).text)![1]!
    const [patient, form, csv] = [
      await idIn('/v2/patients'),
      await idIn('/v2/forms'),
      await idIn('/v2/export-csv'),
    ]
    expect((await caller.send('POST', '/v2/export-csv?type=raw_text', `{"id":${csv}}`)).status).toBe(200)
    const message = `{"patient":${patient},"form":{"id":${form}},"preferred_delivery_method":"email","target_email":"a@example.com"}`
    const { status, text } = await caller.send('POST', '/v2/messages', message)
    expect(status).toBe(201)
    expect(text).toContain(`"patient":{"id":${patient}}`)
  })

  it('numeric-ids and huge-ids write numbers, the latter beyond 2^53 and readable by id', async () => {
    expect((await first('numeric-ids', 'patients')).text).toMatch(/"results":\[\{"id":\d{1,15},/)
    await using emulator = await startEmulator({ ...SIZES, shape: 'huge-ids' })
    const caller = callerOf(emulator)
    const ids = [...(await caller.get('/v2/patients')).text.matchAll(/\{"id":(\d+),"external/g)].map(
      ([, id]) => id!,
    )
    expect(ids).toHaveLength(10)
    for (const id of ids) {
      expect(BigInt(id) > 2n ** 53n).toBe(true)
      expect((await caller.get(`/v2/patients/${id}`)).text).toContain(`{"id":${id},`)
    }
  })

  it('input-fields-object is keyed by name', async () => {
    const { body } = await first('input-fields-object', 'documents')
    expect(Object.values(body.results[0].input_fields)[0]).toHaveProperty('field_type')
  })

  it('nested-questions keeps every question in its place', async () => {
    const plain = (await first('default', 'forms')).body.results
    const nested = (await first('nested-questions', 'forms')).body.results
    const flat = (form: Loose) =>
      form.pages.flatMap((page: Loose) =>
        page.sections.flatMap((one: Loose) => one.rows.flatMap((row: Loose) => row.questions)),
      )
    const byOrder = (a: Loose, b: Loose) => a.order - b.order
    expect(nested.map((form: unknown) => flat(form).sort(byOrder))).toEqual(
      plain.map((form: { questions: unknown }) => form.questions),
    )
  })

  it('html-errors, validation-errors-… and throttle-… write errors their way, with the same status', async () => {
    const page = await first('html-errors', 'patients', '/x')
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(page.text).toContain('<h1>Patient not found.</h1>')
    for (const [shape, body] of [
      ['validation-errors-object', { last_name: ['Validation error.'] }],
      ['validation-errors-list', ['Validation error.']],
    ] as const) {
      await using emulator = await startEmulator({ ...SIZES, shape })
      expect(await callerOf(emulator).send('POST', '/v2/patients', { first_name: 'A' })).toMatchObject({
        status: 400,
        body,
      })
    }
    await using emulator = await startEmulator({ ...SIZES, shape: 'throttle-silent', rateLimit: 0.01 })
    await callerOf(emulator).get('/v2/forms')
    const { status, body, headers } = await callerOf(emulator).get('/v2/forms')
    expect({ status, body, wait: headers.get('retry-after') }).toEqual({
      status: 429,
      body: { detail: 'Request was throttled.' },
      wait: null,
    })
  })

  it('empty-success answers writes without a body, and does not change reads', async () => {
    await using emulator = await startEmulator({ ...SIZES, shape: 'empty-success' })
    const caller = callerOf(emulator)
    const [row] = (await caller.get('/v2/patients')).body.results
    for (const [method, path] of [
      ['POST', '/v2/patients'],
      ['PUT', `/v2/patients/${row.id}`],
      ['PATCH', `/v2/patients/${row.id}`],
    ] as const) {
      expect(await caller.send(method, path, { first_name: 'A', last_name: 'B' })).toMatchObject({
        status: 204,
        text: '',
      })
    }
    expect((await caller.get(`/v2/patients/${row.id}`)).body.first_name).toBe('A')
    expect(emulator.control.world().patients.size).toBe(24)
  })

  it('trailing-slash redirects a path without one to the same path with it', async () => {
    const { status, headers } = await first('trailing-slash', 'patients', '?page=2')
    expect({ status, location: headers.get('location') }).toEqual({
      status: 301,
      location: '/v2/patients/?page=2',
    })
    expect((await first('trailing-slash', 'patients')).headers.get('location')).toBe('/v2/patients/')
  })
})

describe('names of shapes', () => {
  it('can be joined, and an unknown one is refused with a list of the known ones', () => {
    expect(shapeNamed('uid-ids+no-count', '1').names).toEqual(['no-count', 'uid-ids'])
    expect(() => shapeNamed('nonsense', '1')).toThrow(
      /no shape is named "nonsense"; there are default, random, bare-array/,
    )
  })

  it('drawn at random depend on the seed alone', () => {
    expect(shapeNamed('random', '5').names).toEqual(shapeNamed('random', '5').names)
    expect(new Set([1, 2, 3, 4].map((seed) => shapeNamed('random', String(seed)).names.join())).size).toBe(4)
  })
})
