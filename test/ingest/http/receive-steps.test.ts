/** The steps of a request from its first byte to its answer, with the parts of an ingester that note what they are asked. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { BlockList } from 'node:net'
import { beforeEach, expect, test, vi } from 'vitest'
import { SIGNATURE_HEADER } from '../../../src/core/signature.ts'
import { openBodies, type RawBody } from '../../../src/ingest/http/body.ts'
import { openConnections } from '../../../src/ingest/http/connections.ts'
import { answerRefused, answerStored, openEndpoint } from '../../../src/ingest/http/endpoint.ts'
import { LIMITS, openInFlight } from '../../../src/ingest/http/in-flight.ts'
import { type Genuineness, judge } from '../../../src/ingest/http/secrets.ts'
import { type IngesterOptions, openIngester } from '../../../src/ingest/http/server.ts'
import { openInbox } from '../../../src/ingest/inbox/inbox.ts'
import { known, openRecorder } from '../support/ingest.ts'

vi.mock('../../../src/ingest/http/body.ts')
vi.mock('../../../src/ingest/http/connections.ts')
vi.mock('../../../src/ingest/http/endpoint.ts')
vi.mock('../../../src/ingest/http/in-flight.ts', async (load) => ({
  ...(await load<object>()),
  openInFlight: vi.fn(),
}))
vi.mock('../../../src/ingest/http/secrets.ts', async (load) => ({
  ...(await load<object>()),
  judge: vi.fn(),
}))
vi.mock('../../../src/ingest/inbox/inbox.ts')

let steps: string[]
/** What the parts answer. */
let body: RawBody
let judgement: Genuineness | Promise<Genuineness>
let [hasRoom, accepts, isTrusted] = [true, true, false]
let recorder: ReturnType<typeof openRecorder>

const clock = { now: () => 0, sleep: () => new Promise<void>(() => {}) }
const TEAMS = ['north', 'south'].map((name, at) => ({ name, teamId: at + 4, secrets: known(`of ${name}`) }))

beforeEach(() => {
  ;[steps, body, judgement, recorder] = [[], Buffer.from('{"id":"e"}'), 'genuine', openRecorder()]
  ;[hasRoom, accepts, isTrusted] = [true, true, false]
  vi.mocked(openInFlight).mockReturnValue({
    ...{ events: 0, bytes: 0 },
    enter(teamId, peer) {
      steps.push(`enter ${teamId} ${peer}`)
      return {
        ...{ grow: () => true, onDisplaced: () => {} },
        hold: (bytes) => steps.push(`hold ${bytes}`) > 0 && hasRoom,
        accept: (bytes) => steps.push(`accept ${bytes}`) > 0 && accepts,
        release: () => void steps.push('release'),
      }
    },
  })
  vi.mocked(openBodies).mockReturnValue({
    async read(_, reservation) {
      steps.push(reservation === null ? 'read and discard' : 'read')
      return body
    },
  })
  vi.mocked(openConnections).mockReturnValue({
    ...{ add: () => {}, isTrusted: () => isTrusted },
    trust: () => void steps.push('trust'),
  })
  vi.mocked(judge).mockImplementation((bytes, signature, secrets) => {
    steps.push(`judge ${bytes.length} ${String(signature).slice(0, 3)} ${secrets.current()}`)
    return judgement
  })
  vi.mocked(openInbox).mockResolvedValue({
    async store({ teamId, eventId }) {
      steps.push(`store ${teamId} ${eventId}`)
      return 'stored'
    },
    ...{ trouble: () => null, close: async () => void steps.push('close inbox') },
  })
  vi.mocked(openEndpoint).mockReturnValue({
    listen: async (host, port) => `http://${host}:${port}`,
    ...{ close: async () => {}, cut: () => {} },
  })
  vi.mocked(answerStored).mockImplementation((_, outcome) => void steps.push(outcome))
  vi.mocked(answerRefused).mockImplementation((_, reason) => void steps.push(`refuse ${reason}`))
})

async function open(more: Partial<IngesterOptions> = {}) {
  const { watch, logger } = recorder
  const ingester = await openIngester({
    ...{ url: 'postgres://here', host: 'here', port: 7, teams: TEAMS, clock, watch, logger, ...more },
  })
  const [limits, connections, handlers] = vi.mocked(openEndpoint).mock.lastCall!
  const receive = async (
    team: string | undefined,
    headers: Record<string, string> = { [SIGNATURE_HEADER]: SIGNED },
  ) => {
    steps.length = 0
    const request = { headers, socket: { remoteAddress: '10.0.0.1' } } as unknown as IncomingMessage
    handlers.receive(request, { setHeader: () => {} } as unknown as ServerResponse, team)
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
    return steps.splice(0)
  }
  return { ingester, limits, connections, handlers, receive }
}
const SIGNED = 'abc'.padEnd(64, '0')

test('its parts have its limits, with those that it changes, its clock, and the number of its teams', async () => {
  const proxies = new BlockList()
  const { ingester, limits, connections, handlers } = await open({ limits: { body: 100 }, proxies })
  const all = { ...LIMITS, body: 100 }
  expect(limits).toEqual(all)
  expect(vi.mocked(openInFlight).mock.lastCall).toEqual([all, 2, clock])
  expect(vi.mocked(openBodies).mock.lastCall).toEqual([all, clock])
  expect(vi.mocked(openConnections).mock.lastCall).toEqual([
    { limits: all, proxies, onClosed: expect.any(Function) },
  ])
  expect(connections).toBe(vi.mocked(openConnections).mock.results.at(-1)!.value)
  expect(vi.mocked(openInbox).mock.lastCall![0]).toMatchObject({ url: 'postgres://here', clock, limits: all })
  expect([ingester.url, handlers.teams]).toEqual(['http://here:7', ['north', 'south']])
})

test('a signed event is read, judged, trusted, accepted and stored before it is answered, and holds nothing after', async () => {
  const { receive } = await open()
  expect(await receive('south')).toEqual([
    ...[
      'enter 5 10.0.0.1',
      'read',
      'judge 10 abc of south',
      'trust',
      'accept 10',
      'store 5 e',
      'stored',
      'release',
    ],
  ])
  expect(recorder.recorded.stored).toEqual(['south stored'])
})

test('a request of no team, or of more bytes than a body may have, is refused before anything of it is read', async () => {
  const { receive } = await open({ limits: { body: 100 } })
  expect(await receive('east')).toEqual(['refuse unknown_team'])
  expect(await receive(undefined)).toEqual(['refuse unknown_team'])
  expect(await receive('north', { 'content-length': '101' })).toEqual(['refuse too_large'])
  expect(await receive('north', { 'content-length': '100', [SIGNATURE_HEADER]: SIGNED })).toContain('stored')
  expect(recorder.recorded.rejected).toEqual(['unknown_team', 'unknown_team', 'too_large north'])
})

test('the body of a request whose signature is missing or malformed is judged, but not kept', async () => {
  judgement = 'signature'
  const { receive } = await open()
  for (const headers of [{}, { [SIGNATURE_HEADER]: `${SIGNED}0` }]) {
    const [, read, judged, ...rest] = await receive('north', headers as Record<string, string>)
    expect([read, judged]).toEqual(['read and discard', expect.stringMatching(/^judge 10 /)])
    expect(rest).toEqual(['refuse signature', 'release'])
  }
})

test.each<[RawBody, string[]]>([
  ['aborted', []],
  ['slow', ['refuse slow']],
  ['malformed', ['refuse malformed']],
  ['too_large', ['refuse too_large']],
  ['overload', ['refuse overload']],
])('a body that cannot be read (%s) is not judged, and its place is free again', async (result, answer) => {
  body = result
  const { receive } = await open()
  expect(await receive('north')).toEqual(['enter 4 10.0.0.1', 'read', ...answer, 'release'])
})

test('a body that waits for a look-up of secrets keeps its place meanwhile, and is refused where there is no room for it', async () => {
  judgement = Promise.resolve('genuine')
  const { receive } = await open()
  expect((await receive('north')).slice(2)).toEqual([
    ...['judge 10 abc of north', 'hold 10', 'trust', 'accept 10', 'store 4 e', 'stored', 'release'],
  ])
  hasRoom = false
  expect((await receive('north')).slice(2)).toEqual([
    ...['judge 10 abc of north', 'hold 10', 'refuse overload', 'release'],
  ])
})

test('who signed an event for which there is no room is trusted all the same; who did not sign it is not', async () => {
  accepts = false
  const { receive } = await open()
  expect((await receive('north')).slice(3)).toEqual(['trust', 'accept 10', 'refuse overload', 'release'])
  for (judgement of ['signature', 'no_secret', 'unavailable', 'unknown_team'] as const)
    expect((await receive('north')).slice(3)).toEqual([`refuse ${judgement}`, 'release'])
})

test('a trusted connection is no peer, unless it is that of a proxy, whose header names the peer', async () => {
  isTrusted = true
  const entered = async (receive: Awaited<ReturnType<typeof open>>['receive'], forwarded: string) =>
    (await receive('north', { [SIGNATURE_HEADER]: SIGNED, 'x-forwarded-for': forwarded }))[0]
  const direct = await open()
  expect(await entered(direct.receive, '10.9.9.9')).toBe('enter 4 null')
  const proxies = new BlockList()
  proxies.addAddress('10.0.0.1')
  const behind = await open({ proxies })
  expect(await entered(behind.receive, '10.9.9.9')).toBe('enter 4 10.9.9.9')
  const others = new BlockList()
  others.addAddress('10.0.0.2')
  expect(await entered((await open({ proxies: others })).receive, '10.9.9.9')).toBe('enter 4 null')
  isTrusted = false
  expect(await entered((await open({ proxies: others })).receive, '10.9.9.9')).toBe('enter 4 10.0.0.1')
})

test('what is refused before a request is known counts for no team, each for its reason', async () => {
  const { handlers } = await open()
  handlers.elsewhere()
  handlers.malformed()
  vi.mocked(openConnections).mock.lastCall![0].onClosed()
  expect(recorder.recorded.rejected).toEqual(['unknown_team', 'malformed', 'crowded'])
})
