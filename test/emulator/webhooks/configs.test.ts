import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { DECLARED } from '../../../src/emulator/world/declared-catalogue.ts'
import { problemsOf } from '../../support/openapi.ts'
import { type Caller, callerOf, type Reply } from '../caller.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 5 })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

const URL = 'http://127.0.0.1:9/hooks'
const create = (body: object = {}) => caller.send('POST', '/v2/webhooks', { target_url: URL, ...body })
const isDescribed = (method: string, url: string, reply: Reply) =>
  expect(problemsOf({ method, url, ...reply })).toEqual([])

describe('a webhook configuration', () => {
  it('shows its secret when it is created and never again', async () => {
    const made = await create()
    isDescribed('POST', '/v2/webhooks', made)
    const { signature_secret: secret, ...shown } = made.body
    expect(made.status).toBe(201)
    expect(secret).toMatch(/^[0-9a-f]{64}$/)
    const path = `/v2/webhooks/${made.body.id}`
    const later = [
      await caller.get(path),
      await caller.send('PATCH', path, {}),
      await caller.send('PUT', path, { target_url: URL }),
      await caller.get('/v2/webhooks'),
    ]
    for (const { status, text } of later) {
      expect(status).toBe(200)
      expect(text).not.toContain(secret)
    }
    expect(later[0]!.body).toEqual(shown)
    expect(await caller.rows('/v2/webhooks')).toEqual([later[2]!.body])
    for (const reply of later.slice(0, 1)) isDescribed('GET', path, reply)
    isDescribed('GET', '/v2/webhooks', later[3]!)
    expect((await caller.send('DELETE', path)).status).toBe(204)
    expect((await caller.get(path)).body).toEqual({ detail: 'Webhook config not found.' })
  })

  it('selects everything by default', async () => {
    const { body } = await create()
    expect(body).toMatchObject({
      event_types: ['created', 'updated', 'deleted'],
      sources: [
        ...['patient', 'form', 'packet', 'document', 'response', 'packet_response'],
        ...DECLARED.map(({ source }) => source),
      ],
      is_active: true,
    })
    const chosen = { event_types: ['created'], sources: ['response'], is_active: false }
    expect((await create(chosen)).body).toMatchObject(chosen)
  })

  it('loses the fields that a PUT omits, and keeps those that a PATCH omits', async () => {
    const { body } = await create({ event_types: ['created'], sources: ['form'], is_active: false })
    const path = `/v2/webhooks/${body.id}`
    const patched = await caller.send('PATCH', path, { sources: ['packet'] })
    expect(patched.body).toMatchObject({ event_types: ['created'], sources: ['packet'], is_active: false })
    const put = await caller.send('PUT', path, { target_url: `${URL}/2` })
    expect(put.body).toMatchObject({ target_url: `${URL}/2`, is_active: true })
    expect(put.body.sources).toHaveLength(6 + DECLARED.length)
    expect(put.body.created_at).toBe(body.created_at)
    expect(put.body.updated_at > body.updated_at).toBe(true)
  })

  it.each([
    ['no target', {}],
    ['a target that is no URL', { target_url: 'here' }],
    ['a target of another scheme', { target_url: 'ftp://127.0.0.1/x' }],
    ['a target of a scheme that begins alike', { target_url: 'httpx://127.0.0.1/x' }],
    ['a target without slashes', { target_url: 'http:127.0.0.1/x' }],
    ['a target after a blank', { target_url: ' http://127.0.0.1/x' }],
    ['a target without a host', { target_url: 'http://' }],
    ['a target that is null', { target_url: null }],
    ['an unknown event type', { target_url: URL, event_types: ['created', 'exploded'] }],
    ['an unknown source', { target_url: URL, sources: ['message'] }],
    ['sources that are no list', { target_url: URL, sources: 'patient' }],
    ['an activity that is neither', { target_url: URL, is_active: 'yes' }],
    ['a list', []],
    ['no JSON', '{'],
  ])('is refused with %s, and nothing changes', async (_title, body) => {
    const before = await caller.rows('/v2/webhooks')
    const refusal = { status: 400, body: { detail: 'Validation error.' } }
    expect(await caller.send('POST', '/v2/webhooks', body)).toMatchObject(refusal)
    const { body: made } = await create()
    expect(await caller.send('PUT', `/v2/webhooks/${made.id}`, body)).toMatchObject(refusal)
    await caller.send('DELETE', `/v2/webhooks/${made.id}`)
    expect(await caller.rows('/v2/webhooks')).toEqual(before)
  })

  it('of another team is not found, and its events are not listed', async () => {
    const { body } = await create()
    const other = callerOf(emulator, 0, 1)
    for (const [method, path, sent] of [
      ['GET', `/v2/webhooks/${body.id}`],
      ['PUT', `/v2/webhooks/${body.id}`, { target_url: URL }],
      ['PATCH', `/v2/webhooks/${body.id}`, {}],
      ['DELETE', `/v2/webhooks/${body.id}`],
      ['POST', '/v2/webhooks/events/test', { id: body.id }],
    ] as const) {
      expect(await other.send(method, path, sent)).toMatchObject({
        status: 404,
        body: { detail: 'Webhook config not found.' },
      })
    }
    expect((await other.get('/v2/webhooks')).body.count).toBe(0)
  })

  it('has the same id and secret in every run with the same seed', async () => {
    const run = async (seed: number) => {
      await using one = await startEmulator({ port: 0, patients: 1, seed })
      const made = []
      for (let at = 0; at < 2; at += 1) {
        const { body } = await callerOf(one).send('POST', '/v2/webhooks', { target_url: URL })
        made.push([body.id, body.signature_secret])
      }
      return made
    }
    const first = await run(7)
    expect(await run(7)).toEqual(first)
    expect(new Set([...first.flat(), ...(await run(8)).flat()]).size).toBe(8)
  })

  it('has to be named when a test event is requested', async () => {
    const asked = (body: unknown) => caller.send('POST', '/v2/webhooks/events/test', body)
    for (const body of [undefined, {}, { id: '' }, { id: null }]) {
      const reply = await asked(body)
      expect(reply).toMatchObject({ status: 400, body: { detail: 'Webhook config ID is required.' } })
      isDescribed('POST', '/v2/webhooks/events/test', reply)
    }
    expect(await asked({ id: 'nobody' })).toMatchObject({
      status: 404,
      body: { detail: 'Webhook config not found.' },
    })
    expect(await asked('[')).toMatchObject({ status: 400, body: { detail: 'Validation error.' } })
  })

  it.each(['uid-ids', 'numeric-ids', 'huge-ids'])(
    'is found by the id it shows in the shape %s',
    async (shape) => {
      await using one = await startEmulator({ port: 0, patients: 1, shape })
      const speaker = callerOf(one)
      const { text } = await speaker.send('POST', '/v2/webhooks', { target_url: URL })
      const [, id = ''] = /"u?id":"?([^",]+)/.exec(text) ?? []
      expect((await speaker.get(`/v2/webhooks/${id}`)).status).toBe(200)
      const written = shape === 'uid-ids' ? `"${id}"` : id
      const tested = await speaker.send('POST', '/v2/webhooks/events/test', `{"id": ${written}}`)
      expect(tested).toMatchObject({ status: 200, body: { status: 'failed' } })
      const attempts = await speaker.get(`/v2/webhooks/events?webhook_config=${id}`)
      expect(attempts.body.count).toBe(1)
      expect(attempts.text).toContain(`"webhook_config":${written}`)
      const spaced = `{"number": 7, "id"\n :\t${written} }`
      expect((await speaker.send('POST', '/v2/webhooks/events/test', spaced)).status).toBe(200)
    },
  )
})
