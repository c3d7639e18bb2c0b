/** The actions of `/_control` answer with the record as it is then, in the team that is named, or with the reason. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'
import { stillClock } from '../still-clock.ts'

let emulator: Emulator
let caller: Caller
let other: Caller
let team: string

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, clock: stillClock, patients: 9, responses: 60 })
  caller = callerOf(emulator)
  other = callerOf(emulator, 1, 1)
  team = emulator.environments[1]!.teams[1]!.name
})
afterAll(() => emulator.close())

const act = (path: string, body?: unknown) => caller.send('POST', `/_control/${path}`, body, {})
const named = (name: string) => `?team=${encodeURIComponent(name)}`
const openOf = (name: string) =>
  emulator.control
    .world(name)
    .responses.slice(0, 99)
    .filter((one) => !one.is_submitted && one.packet === null && one.form !== null)

describe('an action', () => {
  it('answers with the response as its team reads it, patient and files included', async () => {
    const [{ id }] = openOf(team) as [Loose]
    for (const path of ['answers', 'submit', 'archive']) {
      const { status, body } = await act(`responses/${id}/${path}${named(team)}`)
      const read = (await other.get(`/v2/responses/${id}`)).body
      expect([path, status, body]).toEqual([path, 200, read])
      expect(body.patient).not.toBe(null)
    }
  })

  it('answers with the packet response as the list shows it, with whole forms of its team', async () => {
    const world = emulator.control.world(team)
    const { id } = world.packetResponses.slice(0, 99).find((one) => !one.is_submitted)!
    for (const path of ['advance', 'submit', 'archive']) {
      const { body } = await act(`packet-responses/${id}/${path}${named(team)}`)
      const { results } = (await caller.get(`/_control/packet-responses${named(team)}`, {})).body
      expect(body).toEqual(results.find((one: Loose) => one.id === id))
      for (const form of body.packet.forms) expect(form).toEqual(world.forms.get(form.id))
    }
  })

  it.each<[string, unknown, string]>([
    ...[null, 7, 'x', true, []].map((answers): [string, unknown, string] => [
      ...(['answers', { answers }, 'answers must be an object with question ids as keys'] as const),
    ]),
    ...['7', '"x"', 'null', '[]', '{', 'x'].map((body): [string, unknown, string] => [
      ...(['answers', body, 'the body must be a JSON object'] as const),
    ]),
    ['answers', { answers: { nothing: 'x' } }, 'the form has no question nothing'],
  ])('%s with %j is refused, and changes nothing', async (path, body, detail) => {
    const [response] = openOf(emulator.environments[0]!.teams[0]!.name) as [Loose]
    const reply = await act(`responses/${response.id}/${path}`, body)
    expect([reply.status, reply.body]).toEqual([400, { detail }])
    expect(emulator.control.world().responses.get(response.id)).toEqual(response)
  })

  it('is of the first team of production where none is named, whichever environment is asked', async () => {
    const { id } = openOf(emulator.environments[0]!.teams[0]!.name)[0]!
    const sandbox = callerOf(emulator, 1)
    const { body } = await sandbox.send('POST', `/_control/responses/${id}/submit`, undefined, {})
    expect(body).toEqual((await caller.get(`/v2/responses/${id}`)).body)
    for (const name of ['', 'nobody', team.toLowerCase()])
      for (const [method, path] of [
        ['POST', `responses/${id}/archive`],
        ['DELETE', `responses/${id}`],
        ['GET', 'packet-responses'],
        ['GET', 'webhooks'],
      ] as const) {
        const { status, body } = await caller.send(method, `/_control/${path}${named(name)}`, undefined, {})
        expect([status, body]).toEqual([400, { detail: `no team is named "${name}"` }])
      }
  })
})

describe('the clock', () => {
  const now = () => Date.parse(emulator.control.world().now())

  it('is advanced by seconds, parts of them and none included, for all teams at once', async () => {
    for (const seconds of [0, 0.25, 90]) {
      const before = now()
      const { status, body } = await act(`clock${named(team)}`, { advance_seconds: seconds })
      expect([status, body, now() - before]).toEqual([
        200,
        { now: emulator.control.world().now() },
        seconds * 1000,
      ])
      expect(emulator.control.world(team).now()).toBe(body.now)
    }
  })

  it.each([undefined, {}, { advance_seconds: '5' }, { advance_seconds: null }, { advance_seconds: -1 }])(
    'stays where it is after %j',
    async (body) => {
      const before = now()
      const detail = 'advance_seconds must be a number of 0 or more'
      expect(await act('clock', body)).toMatchObject({ status: 400, body: { detail } })
      expect(now()).toBe(before)
    },
  )

  it('is advanced no further than a stamp can show', async () => {
    const before = now()
    const detail = 'the clock cannot be moved so far'
    expect(await act('clock', { advance_seconds: 1e12 })).toMatchObject({ status: 400, body: { detail } })
    expect(now()).toBe(before)
  })
})

it('the newest thousand packet responses are shown, and all are counted', async () => {
  const { packetResponses } = emulator.control.world()
  const first = packetResponses.at(0)!
  for (let left = 1001; left > 0; left -= 1)
    packetResponses.create((id) => ({ ...first, id, packet: 'gone' }))
  const { count, results } = (await caller.get('/_control/packet-responses', {})).body
  expect([count, results.length]).toEqual([packetResponses.size, 1000])
  expect(results.map(({ id }: Loose) => id)).toEqual(packetResponses.slice(0, 1000, true).map(({ id }) => id))
  expect(results[0].packet).toBe(null)
})

it('an error as a page keeps its headers: what is allowed, and how long to wait', async () => {
  await using strict = await startEmulator({
    port: 0,
    patients: 1,
    shape: 'html-errors',
    rateLimit: { requests: 1, seconds: 60 },
  })
  const { send, get } = callerOf(strict)
  const replies = [await send('PUT', '/v2/patients', {}), await get('/v2/forms'), await get('/v2/forms')]
  expect(
    replies.map(({ status, headers }) => [status, headers.get('allow'), headers.get('retry-after')]),
  ).toEqual([
    [405, 'GET, POST', null],
    [200, null, null],
    [429, null, '60'],
  ])
  expect(replies[2]!.text).toContain('<h1>Request was throttled. Expected available in 60 seconds.</h1>')
})
