/** What pages ask for, in which order, and what is read again after them: pages without a server or a warehouse. */
import { beforeEach, expect, it, vi } from 'vitest'
import { serveBreaking } from '../../../src/console/pages/break.ts'
import { serveDeadLetters } from '../../../src/console/pages/dead-letters.ts'
import { serveInbox } from '../../../src/console/pages/inbox.ts'
import { serveQuestions } from '../../../src/console/pages/questions.ts'
import { serveRecords } from '../../../src/console/pages/records.ts'
import { serveVerify } from '../../../src/console/pages/verify.ts'
import { scripted } from '../../support/scripted.ts'

const explained: unknown[] = []
let explanation: object | Error = {}
vi.mock('../../../src/operate/explain.ts', () => ({
  explain: async (...words: unknown[]) => {
    explained.push(words)
    if (explanation instanceof Error) throw explanation
    return explanation
  },
}))

type Handler = (request: object, reply: object) => Promise<Shown>
interface Shown {
  readonly status?: number
  // biome-ignore lint/suspicious/noExplicitAny: what a template shows
  readonly data: any
}

const TEAMS = [
  { teamId: 3, name: 'north', isRemoved: false },
  { teamId: 4, name: 'south', isRemoved: false },
  { teamId: 5, name: 'gone', isRemoved: true },
]

/** The routes of a page, and the effects of requests in their order. */
function openScene(serve: (app: never, shared: never) => void, more: object = {}) {
  const routes = new Map<string, Handler>()
  const effects: unknown[] = []
  const keep = (method: string) => (path: string, _: unknown, handler: Handler) =>
    routes.set(`${method} ${path}`, handler)
  const db = scripted((statement, values) => {
    if (statement.includes('into intake_ops.audit')) {
      effects.push(['audit', ...values])
      return undefined
    }
    return statement.includes('from intake.teams team left join intake_ops.removed_teams') ? TEAMS : []
  })
  const fresh: number[] = []
  const readings = {
    share: (_read: unknown, milliseconds: number) => {
      fresh.push(milliseconds)
      return { within: async () => null }
    },
    look: async (work: (of: typeof db) => unknown) => await work(db),
    ask: async (key: string, read: () => Promise<unknown>, milliseconds: number) => {
      effects.push(['ask', key, milliseconds])
      return await read()
    },
    forget: () => void effects.push('forget'),
  }
  const stop = new AbortController()
  const options = { url: 'postgres://w', teams: [{ name: 'north', apiVersion: 'v1' }], ...more }
  const show = async (_request: unknown, _reply: unknown, page: object) => page
  serve(
    { get: keep('get'), post: keep('post') } as never,
    { options, readings, signal: stop.signal, show } as never,
  )
  const reply = { redirect: () => {} }
  const visitor = { login: 'ada', role: 'steward' }
  return {
    ...{ effects, fresh, stop },
    ask: (route: string, request: object) => routes.get(route)!({ visitor, ...request }, reply),
  }
}

beforeEach(() => {
  explained.length = 0
})

it('what pages of one kind share is read again after half a second, a second or five, and counts of answers after a minute', () => {
  expect(
    [serveVerify, serveDeadLetters, serveInbox, serveQuestions].map((serve) => openScene(serve).fresh),
  ).toEqual([[500], [500], [1_000], [5_000, 60_000, 5_000]])
})

it('an action on dead letters is audited before it is done, and everything is read again', async () => {
  const group = { team: 'north', stream: 'forms', reason: 'odd' }
  for (const action of ['retry', 'discard']) {
    const { ask, effects } = openScene(serveDeadLetters)
    const { data } = await ask(`post /dead-letters/${action}`, { body: { ...group, upTo: '7' } })
    expect(data).toEqual({ group, action, outcomes: [], count: 0 })
    const detail = JSON.stringify({ count: 0, reason: 'odd', up_to: 7 })
    expect(effects).toEqual([['audit', 'ada', action, 'dead letters of north/forms', detail], 'forget'])
    for (const upTo of ['1.5', 'x', '1e99'])
      await expect(ask(`post /dead-letters/${action}`, { body: { ...group, upTo } })).rejects.toMatchObject({
        ...{ statusCode: 400, message: 'the form is incomplete' },
      })
    expect(effects).toHaveLength(2)
  }
})

const state = (more: object = {}) => ({
  ...{ version: 'v', observedAt: 'o', deleted: false, hash: 'h', origin: 'event:e', supersededAt: null },
  ...{ wonBy: null, changes: [], payload: '{}', ...more },
})
const found = (states: readonly object[], more: object = {}) => ({
  ...{ states, events: [], deadLetters: [], refetch: null, runs: new Map(), ...more },
})
const asked = { team: 'north', stream: 'forms', id: 'f' }

it('a record is explained with the version of its team, the newest state first, each with its run and its fields', async () => {
  const { ask, effects } = openScene(serveRecords)
  const event = { eventType: 't', receivedAt: 'at', status: 'done', version: 'v', outcome: 'won' }
  const deadLetter = { status: 'waiting', seen: 2, last_seen_at: 'then', reason: 'odd' }
  const change = (field: string, kind: string) => ({ field, kind, before: 'canary', after: 'canary' })
  explanation = found(
    [
      state({ origin: 'run:12 page:3', changes: [change('a', 'added'), change('b', 'changed')] }),
      state({ origin: 'run:123', changes: [change('c', 'removed')] }),
      // An event is of no run, whatever its id is.
      state({ origin: 'event:12' }),
    ],
    {
      runs: new Map([[12, 'run twelve']]),
      refetch: { reason: 'partial', due_at: 'due', attempts: 2, id: 'x' },
      events: ['e', 'f'].map((eventId) => ({ ...event, eventId, body: 'canary' })),
      deadLetters: [4, 5].map((id) => ({ ...deadLetter, id, body: 'canary' })),
    },
  )
  const { data, status } = await ask('get /records', { query: asked })
  expect(status).toBe(200)
  expect(data.found.states.map((one: { fields: object; run: object }) => [one.fields, one.run])).toEqual([
    [[], null],
    [['c (removed)'], null],
    [['a (added)', 'b'], 'run twelve'],
  ])
  expect(data.found.refetch).toEqual({ reason: 'partial', due_at: 'due', attempts: 2 })
  expect(data.found.events).toEqual(['e', 'f'].map((eventId) => ({ ...event, eventId })))
  expect(data.found.deadLetters).toEqual([4, 5].map((id) => ({ ...deadLetter, id })))
  expect(data.teams).toEqual(TEAMS.slice(0, 2))
  expect(JSON.stringify(data)).not.toContain('canary')
  await ask('get /records', { query: { ...asked, team: 'south' } })
  const key = (teamId: number) => ({ teamId, stream: expect.objectContaining({ name: 'forms' }), id: 'f' })
  expect(explained).toEqual([
    ['postgres://w', key(3), 'v1'],
    ['postgres://w', key(4), 'v2.1'],
  ])
  expect(effects[0]).toEqual(['ask', `record ${JSON.stringify(asked)}`, 700])
})

it('a record that was erased or is not known is answered with 404 and the reason, as are unknown teams and streams; any other failure is thrown', async () => {
  const { ask, effects } = openScene(serveRecords)
  for (const code of ['erased', 'unknown_record']) {
    explanation = Object.assign(new Error(`it is ${code}`), { code })
    expect(await ask('get /records', { query: asked })).toMatchObject({
      ...{ status: 404, data: { why: `it is ${code}`, found: null } },
    })
    await expect(ask('post /records/value', { body: { ...asked, path: 'name' } })).rejects.toMatchObject({
      statusCode: 404,
      message: 'there is no such value',
    })
  }
  explanation = Object.assign(new Error('away'), { code: 'other' })
  await expect(ask('get /records', { query: asked })).rejects.toThrow('away')
  await expect(ask('post /records/value', { body: asked })).rejects.toThrow('away')
  explanation = found([state()])
  for (const other of [{ team: 'gone' }, { team: 'nobody' }, { stream: 'nothing' }])
    await expect(ask('get /records', { query: { ...asked, ...other } })).rejects.toMatchObject({
      ...{ statusCode: 404, message: 'there is no such team or stream' },
    })
  expect(effects.filter((effect) => String(effect).startsWith('audit'))).toEqual([])
})

it('of the current state a thousand values can be asked for, each up to ten thousand characters, once that is audited', async () => {
  const { ask, effects } = openScene(serveRecords)
  const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, at) => [`n${at}`, at]))
  const nested = { long: 'x'.repeat(10_001), list: [{ a: 'text' }, null, true], '': { in: 1.5 } }
  explanation = found([state({ payload: '{"old":1}' }), state({ payload: JSON.stringify(nested) })])
  expect((await ask('get /records', { query: asked })).data.paths).toEqual([
    ...['long', 'list[0].a', 'list[1]', 'list[2]'],
    'in',
  ])
  const readValue = async (path: string) =>
    (await ask('post /records/value', { body: { ...asked, path } })).data.value
  effects.length = 0
  expect([await readValue('long'), await readValue('list[0].a'), await readValue('list[1]')]).toEqual([
    ...['x'.repeat(10_000), 'text'],
    'null',
  ])
  expect(effects).toEqual(
    ['long', 'list[0].a', 'list[1]'].map((field) => [
      ...['audit', 'ada', 'value', 'north/forms/f', JSON.stringify({ field })],
    ]),
  )
  await expect(readValue('old')).rejects.toMatchObject({ statusCode: 404 })
  explanation = found([state({ payload: JSON.stringify(many) })])
  const { paths } = (await ask('get /records', { query: asked })).data
  expect([paths.length, paths.at(-1)]).toEqual([1_000, 'n999'])
  explanation = found([state(), state({ payload: null, deleted: true })])
  expect((await ask('get /records', { query: asked })).data.paths).toEqual([])
})

it('damage that was watched to its end is read again by every page; a console that closes watches no longer', async () => {
  let micros = 0
  const signals: (AbortSignal | undefined)[] = []
  let wake = () => {}
  const clock = {
    now: () => micros,
    sleep: (milliseconds: number, signal?: AbortSignal) => {
      expect(milliseconds).toBe(250)
      signals.push(signal)
      micros += 250_000
      return new Promise<void>((resolve, reject) => {
        wake = resolve
        signal?.addEventListener('abort', () => reject(new Error('closed')))
      })
    },
  }
  let healed = false
  let looks = 0
  const isHealed = async () => {
    looks += 1
    return healed
  }
  const run = async () => ({ text: 'damaged', heal: async () => {}, isHealed })
  const breakages = [{ name: 'glass', title: 'Glass', heals: 'itself', run }]
  const { ask, effects, stop } = openScene(serveBreaking, { breakages, clock })
  const watched = async () => (await ask('get /break', {})).data.watched[0]
  await ask('post /break/:name', { params: { name: 'glass' } })
  await expect.poll(() => signals.length).toBe(1)
  expect(await watched()).toMatchObject({ state: 'broken', seen: 0, seconds: 0.25 })
  expect(effects).toEqual([['audit', 'ada', 'break', 'glass', '{}']])
  healed = true
  wake()
  await expect.poll(watched).toMatchObject({ state: 'healed', text: 'damaged', seen: 0, seconds: 0.25 })
  expect(effects.slice(1)).toEqual(['forget'])
  healed = false
  await ask('post /break/:name', { params: { name: 'glass' } })
  await expect.poll(() => signals.length).toBe(2)
  expect(signals).toEqual([stop.signal, stop.signal])
  stop.abort()
  await expect.poll(watched).toMatchObject({ state: 'failed', text: 'damaged' })
  expect([looks, effects.slice(2)]).toEqual([3, [['audit', 'ada', 'break', 'glass', '{}'], 'forget']])
})
