/** How answers are written in each shape: rows of lists, single records, and writes without a body. */
import { beforeAll, describe, expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import type { Answer, Failure, JsonRecord } from '../../../src/emulator/http/answer.ts'
import { render } from '../../../src/emulator/http/render.ts'
import {
  showDocument,
  showForm,
  showMessage,
  showPacket,
  showPatient,
  showResponse,
} from '../../../src/emulator/http/resources/show.ts'
import { SHAPE_NAMES, shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import { World } from '../../../src/emulator/world/world.ts'

const rowsOf: Record<string, JsonRecord[]> = {}

beforeAll(() => {
  const clock = { now: () => 1_772_323_200_000_000, sleep: () => new Promise<void>(() => {}) }
  const service = new ServiceClock(clock, 1)
  const sizes = { patients: 3, forms: 3, packets: 3, documents: 3, responses: 6 }
  const nobody = { patients: [], forms: [], surveys: [] }
  const world = new World(['render'], sizes, nobody, service, new Timeline(service, clock))
  const showing = { world, version: '', nestedForms: false }
  Object.assign(rowsOf, {
    patients: world.patients.slice(0, 3).map(showPatient),
    forms: world.forms.slice(0, 3).map(showForm),
    packets: world.packets.slice(0, 3).map((one) => showPacket(one, showing)),
    documents: world.documents.slice(0, 3).map((one) => showDocument(one, showing)),
    messages: world.messages.slice(0, 3).map((one) => showMessage(one, showing)),
    responses: world.responses.slice(0, 3).map((one) => showResponse(one, showing)),
  })
})

const links = { next: 'http://h/v2/x?page=3', previous: 'http://h/v2/x?page=1' }

describe.each(['default', ...SHAPE_NAMES])('in the shape %s', (name) => {
  const shape = shapeNamed(name, '1')

  it('a page has each row as lists do, whether there are none, one or several, and a record is as by its id', () => {
    for (const [resource, rows] of Object.entries(rowsOf)) {
      for (const count of [0, 1, 3]) {
        const some = rows.slice(0, count)
        const page = { resource, rows: some, count: 7, ...links }
        const listed = some.map((row) => shape.record(row, { resource, inList: true }))
        const { value, headers } = shape.envelope({ ...page, rows: listed })
        expect(render({ type: 'page', ...page }, shape)).toEqual({
          status: 200,
          headers: { 'content-type': 'application/json', ...headers },
          body: shape.text(JSON.stringify(value)),
        })
      }
      const [record] = rows as [JsonRecord]
      expect(render({ type: 'record', status: 200, resource, record }, shape)).toEqual({
        status: 200,
        headers: { 'content-type': 'application/json' },
        body: shape.text(JSON.stringify(shape.record(record, { resource, inList: false }))),
      })
    }
  })
})

it('in the shape empty-success each write that succeeds has no body, whatever its status; reads and errors have one', () => {
  const shape = shapeNamed('empty-success', '1')
  const record = { id: '1' }
  const of = (status: 200 | 201 | 202, method?: string) =>
    render({ type: 'record', status, resource: 'patients', record }, shape, method)
  const empty = { status: 204, headers: {}, body: '' }
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
    for (const status of [200, 201, 202] as const) expect(of(status, method)).toEqual(empty)
  const full = { status: 200, headers: { 'content-type': 'application/json' }, body: '{"id":"1"}' }
  expect([of(200, 'GET'), of(200)]).toEqual([full, full])
  expect(render({ type: 'empty', status: 204 }, shape, 'DELETE')).toEqual(empty)
  const failure: Failure = { type: 'failure', status: 400, detail: 'No.' }
  expect(render(failure, shape, 'POST')).toMatchObject({ status: 400, body: '{"detail":"No."}' })
  const page: Answer = { type: 'page', resource: 'patients', rows: [], count: 0, next: null, previous: null }
  expect(render(page, shape, 'POST')).toMatchObject({ status: 200 })
})

it('an error has the headers of its reason, and no empty ones', () => {
  const failure: Failure = {
    ...{ type: 'failure', status: 429, detail: 'Wait.' },
    headers: { 'retry-after': '5', allow: '' },
  }
  expect(render(failure, shapeNamed('default', '1'))).toEqual({
    status: 429,
    headers: { 'content-type': 'application/json', 'retry-after': '5' },
    body: '{"detail":"Wait."}',
  })
  const page = render(failure, shapeNamed('html-errors', '1'))
  expect(page.headers).toEqual({ 'content-type': expect.stringMatching(/^text\/html/), 'retry-after': '5' })
})
