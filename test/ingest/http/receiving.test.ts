/** What an ingester answers, counts and says for each outcome of the inbox, from its start until it is closed. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type IngesterOptions, openIngester } from '../../../src/ingest/http/server.ts'
import type { InboxEvent, StoreOutcome } from '../../../src/ingest/inbox/event.ts'
import { type InboxOptions, openInbox } from '../../../src/ingest/inbox/inbox.ts'
import { eventOf, known, openRecorder, PATIENT, post, SECRET } from '../support/ingest.ts'

vi.mock('../../../src/ingest/inbox/inbox.ts')

type Ingester = Awaited<ReturnType<typeof openIngester>>

let steps: string[]
let stored: InboxEvent[]
/** What storing an event ends with. */
let outcome: () => Promise<StoreOutcome>
let given: InboxOptions
let sleeps: Map<() => void, number>
let recorder: ReturnType<typeof openRecorder>
let ingester: Ingester | null
let now: number

beforeEach(() => {
  ;[steps, stored, sleeps, recorder, ingester, now] = [[], [], new Map(), openRecorder(), null, 0]
  outcome = async () => 'stored'
  vi.mocked(openInbox).mockImplementation(async (options) => {
    given = options
    return {
      async store(event) {
        stored.push(event)
        return await outcome()
      },
      trouble: () => 'it is away',
      close: async () => void steps.push('close inbox'),
    }
  })
})
afterEach(async () => {
  await ingester?.close()
})

const TEAMS = ['north', 'south'].map((name, at) => ({ name, teamId: at + 1, secrets: known(SECRET) }))

async function open(more: Partial<IngesterOptions> = {}): Promise<Ingester> {
  const clock = {
    now: () => now,
    sleep: (milliseconds: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        const wake = () => void (sleeps.delete(wake) && resolve())
        sleeps.set(wake, milliseconds)
        signal?.addEventListener('abort', () => sleeps.delete(wake) && reject(signal.reason))
      }),
  }
  const { watch, logger } = recorder
  ingester = await openIngester({
    ...{
      url: 'postgres://here',
      host: '127.0.0.1',
      port: 0,
      teams: TEAMS,
      clock,
      watch,
      logger,
      limits: PATIENT,
    },
    ...more,
  })
  return ingester
}
const said = () =>
  recorder.recorded.logged.splice(0).map((line) => {
    const { time: _, pid: __, hostname: ___, ...rest } = JSON.parse(line)
    return rest
  })

test('each outcome of the inbox has its answer and is counted for its team; nothing stays in flight', async () => {
  const { url, inFlight, trouble } = await open()
  expect(trouble()).toBe('it is away')
  const outcomes: (() => Promise<StoreOutcome>)[] = [
    async () => 'stored',
    async () => 'duplicate',
    async () => 'removed',
    () => Promise.reject(new Error('canary')),
  ]
  const answers = []
  for (outcome of outcomes) {
    const { status, headers } = await post(url, eventOf({ id: 'e' }), { path: '/webhooks/south' })
    answers.push([status, headers.get('retry-after'), headers.get('connection')])
  }
  expect(answers).toEqual([
    [200, null, 'keep-alive'],
    [200, null, 'keep-alive'],
    [404, null, 'keep-alive'],
    [503, '1', 'keep-alive'],
  ])
  expect(stored.map(({ teamId, eventId }) => [teamId, eventId])).toEqual(Array(4).fill([2, 'e']))
  expect(recorder.recorded).toMatchObject({
    stored: ['south stored', 'south duplicate'],
    rejected: ['unknown_team south', 'unavailable south'],
  })
  expect(inFlight).toMatchObject({ events: 0, bytes: 0 })
  expect(said()).toEqual([
    { level: 30, team: 'south', msg: 'events flow: the first one is stored' },
    {
      ...{ level: 40, refused: { unknown_team: 1 } },
      msg: 'webhook requests were refused since the last such line',
    },
  ])
  now += 60_000_000
  await post(url, eventOf(), { path: '/webhooks/nobody' })
  expect(said()).toMatchObject([{ refused: { unavailable: 1, unknown_team: 1 } }])
})

test('at the start each team without a known secret is named, but none whose secrets could not be looked up', async () => {
  const refresh = [
    async () => [],
    () => Promise.reject(new Error('away')),
    async () => ['known'],
    async () => [],
  ]
  const teams = refresh.map((look, at) => ({
    ...{ name: `team ${at}`, teamId: at, secrets: { ...known(), refresh: look } },
  }))
  await open({ teams, onStored: () => steps.push('stored') })
  const msg = 'no signature secret is known: events are answered 503 until there is one'
  expect(said()).toEqual([
    { level: 40, team: 'team 0', msg },
    { level: 40, team: 'team 3', msg },
  ])
  given.onStored()
  expect(steps).toEqual(['stored'])
  expect(given).toMatchObject({ url: 'postgres://here', limits: { ...PATIENT, body: 5_242_880 } })
})

test('without a drain in its process nobody is woken', async () => {
  await open()
  expect(() => given.onStored()).not.toThrow()
})

test('closed, it stores and answers the events in flight, then closes the inbox, once however often it is closed', async () => {
  const own = await open()
  const ends: ((outcome: StoreOutcome | Error) => void)[] = []
  outcome = () =>
    new Promise((resolve, reject) => {
      ends.push((end) => (end instanceof Error ? reject(end) : resolve(end)))
    })
  const sent = [0, 1].map(() => post(own.url, eventOf(), { path: '/webhooks/north' }))
  await expect.poll(() => ends.length).toBe(2)
  expect(own.inFlight.events).toBe(2)
  const closing = [own.close(), own.close(), own[Symbol.asyncDispose]()]
  expect(new Set(closing).size).toBe(1)
  expect([...sleeps.values()].filter((each) => each !== 250)).toEqual([5_000])
  expect(steps).toEqual([])
  ends[0]!('stored')
  ends[1]!(new Error('away'))
  const answers = await Promise.all(sent)
  expect(answers.map(({ status, headers }) => [status, headers.get('connection')])).toEqual([
    [200, 'close'],
    [503, 'close'],
  ])
  await Promise.all(closing)
  expect([steps, [...sleeps.values()].filter((each) => each !== 250)]).toEqual([['close inbox'], []])
})

test('five seconds after it was closed, an event that hangs is cut off', async () => {
  const own = await open()
  outcome = () => new Promise(() => {})
  const cut = expect(post(own.url, eventOf(), { path: '/webhooks/north' })).rejects.toThrow()
  await expect.poll(() => stored.length).toBe(1)
  const closing = own.close()
  for (const [wake, milliseconds] of sleeps) if (milliseconds === 5_000) wake()
  await cut
  await closing
  expect(steps).toEqual(['close inbox'])
})

test('where it cannot listen, the inbox is closed, and the error is that of the port', async () => {
  const first = await open()
  await expect(open({ port: Number(new URL(first.url).port) })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  expect(steps).toEqual(['close inbox'])
})
