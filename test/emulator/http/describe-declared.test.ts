/** A resource that one file declares is described, listed and reported like those of the service. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import type { Call, Route } from '../../../src/emulator/http/call.ts'
import { withDeclared } from '../../../src/emulator/http/describe-declared.ts'
import { readOnly } from '../../../src/emulator/http/resources/forms.ts'
import { showEventData } from '../../../src/emulator/http/resources/show.ts'
import { shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import { Subjects } from '../../../src/emulator/webhooks/envelope.ts'
import type { DeclaredResource } from '../../../src/emulator/world/declared.ts'
import { DECLARED } from '../../../src/emulator/world/declared-catalogue.ts'
import { type EventSource, World, type WorldEvent } from '../../../src/emulator/world/world.ts'

const results: DeclaredResource = {
  resource: 'lab_results',
  source: 'lab_result',
  about: 'What a laboratory found. Assumed.',
  fields: { patient: { type: 'string' }, value: { type: 'number' } },
  size: ({ patients }) => 2 * patients.count,
  make: (id, index, { patients }) => ({
    ...{ id, patient: patients.ids.idAt(index % patients.count), value: index },
    ...{ created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' },
  }),
}
const declared = DECLARED as DeclaredResource[]

beforeEach(() => void declared.push(results))
afterEach(() => void declared.pop())

const ref = (path: string) => ({ $ref: `#/components/${path}` })

describe('the description', () => {
  const before = {
    ...{ openapi: '3.1.0', tags: [{ name: 'Forms' }], paths: { '/v2/forms': {} }, webhooks: { form: {} } },
    components: { schemas: { Form: {} }, parameters: { Id: {} } },
  }

  it('stays as it is where nothing is declared', () => {
    const others = declared.splice(0)
    expect(withDeclared(before)).toBe(before)
    declared.push(...others)
  })

  it('has its list and its record by id, with the parameters and answers of the others', () => {
    const answers = (description: string, schema: string) => ({
      200: {
        description,
        headers: { 'X-Service-Environment': ref('headers/ServiceEnvironment') },
        content: { 'application/json': { schema: ref(`schemas/${schema}`) } },
      },
      ...{ 401: ref('responses/Unauthenticated'), 403: ref('responses/Forbidden') },
      ...{ 404: ref('responses/NotFound'), 429: ref('responses/Throttled') },
      default: ref('responses/OtherError'),
    })
    const about = 'What a laboratory found. Assumed.'
    const { tags, paths, openapi } = withDeclared(before)
    expect([openapi, tags]).toEqual([
      '3.1.0',
      [{ name: 'Forms' }, { name: 'LabResults', description: about }],
    ])
    const common = { tags: ['LabResults'], description: about }
    expect(paths).toEqual({
      '/v2/forms': {},
      '/v2/lab_results': {
        get: {
          ...common,
          ...{ operationId: 'listLabResults', summary: 'List lab_results' },
          parameters: ['Page', 'PageSize', 'Limit', 'Offset', 'ApiVersion'].map((name) =>
            ref(`parameters/${name}`),
          ),
          responses: answers("One page of the team's lab_results.", 'LabResultPage'),
        },
      },
      '/v2/lab_results/{id}': {
        get: {
          ...common,
          ...{ operationId: 'getLabResult', summary: 'Read one of the lab_results' },
          parameters: ['Id', 'ApiVersion'].map((name) => ref(`parameters/${name}`)),
          responses: answers('The record.', 'LabResult'),
        },
      },
    })
  })

  it('has its events, which are signed and answered like others, and the schemas of all that', () => {
    const about = 'What a laboratory found. Assumed.'
    const { webhooks, components } = withDeclared(before)
    expect(webhooks).toEqual({
      form: {},
      lab_result: {
        post: {
          ...{ tags: ['Events'], operationId: 'receiveLabResultEvent', description: about, security: [] },
          summary: 'A record of source lab_result was created, updated or deleted',
          parameters: [ref('parameters/Signature')],
          requestBody: {
            required: true,
            content: { 'application/json': { schema: ref('schemas/LabResultEvent') } },
          },
          responses: { '2XX': ref('responses/Acknowledged'), '4XX': ref('responses/Rejected') },
        },
      },
    })
    const time = { type: 'string', format: 'date-time' }
    expect(components).toEqual({
      parameters: { Id: {} },
      schemas: {
        Form: {},
        LabResult: {
          ...{ description: about, type: 'object' },
          required: ['id', 'patient', 'value', 'created_at', 'updated_at'],
          properties: {
            ...{
              id: { type: 'string', minLength: 1 },
              patient: { type: 'string' },
              value: { type: 'number' },
            },
            ...{ created_at: time, updated_at: time },
          },
        },
        LabResultPage: {
          description: about,
          allOf: [
            ref('schemas/Page'),
            { type: 'object', properties: { results: { type: 'array', items: ref('schemas/LabResult') } } },
          ],
        },
        LabResultEvent: {
          description: about,
          allOf: [
            ref('schemas/Envelope'),
            {
              ...{ type: 'object', properties: { source: { const: 'lab_result' } } },
              if: ref('schemas/LivingEvent'),
              // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
              then: { type: 'object', properties: { data: ref('schemas/LabResult') } },
            },
          ],
        },
      },
    })
  })
})

describe('a declared resource', () => {
  function open(): World {
    const clock = { now: () => 1_772_323_200_000_000, sleep: () => new Promise<void>(() => {}) }
    const service = new ServiceClock(clock, 1)
    const sizes = { patients: 3, forms: 0, packets: 0, documents: 0, responses: 0 }
    const nobody = { patients: [], forms: [], surveys: [] }
    return new World(['declared'], sizes, nobody, service, new Timeline(service, clock))
  }

  it('has its seeded rows in the world, whose changes are events with the row as it is', () => {
    const world = open()
    const table = world.declared('lab_result')
    expect(table.slice(0, 100).map(({ value }) => value)).toEqual([0, 1, 2, 3, 4, 5])
    const first = table.at(0)!
    expect([first.id, first.patient]).toEqual([table.ids.idAt(0), world.patients.at(0)!.id])
    expect(table.at(3)!.patient).toBe(first.patient)
    expect(() => world.declared('other')).toThrow(RangeError)
    const events: WorldEvent[] = []
    world.subscribe((event) => void events.push(event))
    const changed = table.update(first.id, (old) => ({ ...old, value: 7 }))!
    expect(events).toMatchObject([{ source: 'lab_result', type: 'updated', id: first.id, row: { value: 7 } }])
    const showing = { world, version: '', nestedForms: false }
    const source = 'lab_result' as EventSource
    expect(showEventData(source, changed as never, showing)).toEqual({
      resource: 'lab_results',
      record: changed,
    })
    expect(new Subjects(world).example([source])).toEqual({ source, row: changed })
  })

  it('has ids of its own, which no other resource of the world has', () => {
    declared.push({ ...results, resource: 'referrals', source: 'referral' })
    try {
      const world = open()
      const [own, other] = [world.declared('lab_result'), world.declared('referral')]
      const ids = [own, other, world.patients].flatMap((table) => table.slice(0, 100).map(({ id }) => id))
      expect(ids).toHaveLength(6 + 6 + 3)
      expect(new Set(ids).size).toBe(ids.length)
      for (const { id } of other.slice(0, 100)) expect(own.get(id)).toBeUndefined()
      // The same world has the same ids again.
      expect(open().declared('referral').slice(0, 100)).toEqual(other.slice(0, 100))
    } finally {
      declared.pop()
    }
  })

  it('is listed, and each record found by its id; another is not found', async () => {
    const world = open()
    const routes: Route[] = readOnly(
      'lab_results',
      (all) => all.declared('lab_result'),
      (one) => one,
    )
    expect(routes.map(({ path, methods }) => [path, Object.keys(methods)])).toEqual([
      ['/v2/lab_results', ['GET']],
      ['/v2/lab_results/:id', ['GET']],
    ])
    const rows = world.declared('lab_result').slice(0, 100)
    const ask = (at: number, params: object = {}) =>
      routes[at]!.methods.GET!({
        ...{
          world,
          params,
          query: new URLSearchParams(),
          shape: shapeNamed('default', '1'),
          faults: new Map(),
        },
        ...{ origin: 'http://here', elsewhere: '', path: '/v2/lab_results', defaultPageSize: 4, version: '' },
      } as unknown as Call)
    const next = 'http://here/v2/lab_results?page=2'
    expect(await ask(0)).toMatchObject({ resource: 'lab_results', rows: rows.slice(0, 4), count: 6, next })
    expect(await ask(1, { id: rows[5]!.id })).toEqual({
      ...{ type: 'record', status: 200, resource: 'lab_results', record: rows[5] },
    })
    for (const id of ['x', world.patients.at(0)!.id])
      expect(await ask(1, { id })).toEqual({ type: 'failure', status: 404, detail: 'Not found.' })
  })
})
