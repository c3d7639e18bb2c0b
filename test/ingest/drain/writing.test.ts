/** What one batch of events writes, in which order, before it is committed: of all teams and streams, to the last field. */
import { beforeEach, expect, test, vi } from 'vitest'
import type { Instant } from '../../../src/core/time.ts'
import { incomplete, overtaken } from '../../../src/ingest/drain/current.ts'
import { gather } from '../../../src/ingest/drain/gather.ts'
import { type InboxRow, remove, settle } from '../../../src/ingest/drain/inbox-rows.ts'
import { write } from '../../../src/ingest/drain/load-events.ts'
import { recordFindings, storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { countSkipped, erasedAmong, openErasuresOf } from '../../../src/load/erasures.ts'
import { writeBatch } from '../../../src/load/merge/write-batch.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
import { turnsDuring } from '../../support/turns.ts'
import { noonPlus, patient } from './scene.ts'

vi.mock('../../../src/ingest/drain/current.ts')
vi.mock('../../../src/ingest/drain/inbox-rows.ts')
vi.mock('../../../src/load/dead-letters.ts')
vi.mock('../../../src/load/erasures.ts')
vi.mock('../../../src/load/merge/write-batch.ts')
vi.mock('../../../src/load/refetches.ts')

let stored: InboxRow[]
let steps: unknown[][]
/** Keys of records, by what the current state says of them. */
let losing: string[]
let sparse: string[]
let conflicting: { teamId: number; id: string }[]
let earlier: string[]

const DB = 'the database'
const session = {
  db: DB,
  client: { query: async (text: string) => void steps.push([text]) },
} as unknown as Parameters<typeof write>[0]
const eventsOf = (rows: readonly { readonly eventId: string }[]) => rows.map(({ eventId }) => eventId)

beforeEach(() => {
  ;[stored, steps, losing, sparse, conflicting, earlier] = [[], [], [], [], [], []]
  const note =
    (step: string) =>
    async (db: unknown, ...rest: unknown[]) => {
      expect([DB, session]).toContain(db)
      steps.push([step, ...rest])
    }
  vi.mocked(openErasuresOf).mockImplementation(async (_, teamIds) => {
    steps.push(['erasures of', teamIds])
    return new Map()
  })
  vi.mocked(overtaken).mockImplementation(async (_, rows) => {
    steps.push(['overtaken', eventsOf(rows)])
    return new Set(earlier)
  })
  vi.mocked(incomplete).mockImplementation(async (_, __, { name }, envelopes) => {
    const keys = envelopes.map(({ teamId, id }) => `${teamId}/${id}`)
    steps.push(['compare', name, keys])
    const [own, few] = [losing, sparse].map((all) => new Set(all.filter((key) => keys.includes(key))))
    return { losing: own!, sparse: few! }
  })
  vi.mocked(writeBatch).mockImplementation(async (_, { stream, lines, from, withoutErasures }) => {
    steps.push(['merge', stream.name, lines.count, from, [...withoutErasures!]])
    return { conflicts: conflicting.filter(({ id }) => (id === 'k') === (stream.one === null)) } as never
  })
  vi.mocked(storeDeadLetters).mockImplementation(note('dead letters') as never)
  vi.mocked(recordFindings).mockImplementation(
    (async (_: unknown, stream: string, { driftAt }: { driftAt: Map<string, number> }) =>
      void steps.push(['findings', stream, [...driftAt]])) as never,
  )
  vi.mocked(requestRefetches).mockImplementation(async (_, requests) => {
    steps.push(['requests', requests])
    return requests.length
  })
  vi.mocked(countSkipped).mockImplementation(note('skipped') as never)
  vi.mocked(remove).mockImplementation(async (_, rows) => void steps.push(['remove', eventsOf(rows)]))
  vi.mocked(settle).mockImplementation(async (_, rows, status) => {
    steps.push([status, eventsOf(rows)])
    return rows.map(({ seq }) => ({ seq, seconds: 1 }))
  })
})

function store(teamId: number, source: string, data: unknown, more: object = {}): void {
  const seq = String(stored.length + 1)
  const body = { id: `e${seq}`, timestamp: noonPlus(10), event_type: 'updated', source, data, ...more }
  stored.push({
    ...{ teamId, eventId: `e${seq}`, seq, receivedOn: '2026-01-01', attempts: 0, source, recordId: null },
    ...{ receivedAt: noonPlus(100 + Number(seq)) as Instant, body: Buffer.from(JSON.stringify(body)) },
  })
}

const loading = { teamIds: [1, 2], apiVersionOf: () => 'v2.1', usual: { of: async () => new Map() } }
async function writeAll() {
  const gathered = await gather(stored, loading.apiVersionOf)
  return await write(session, loading, { rows: stored, gathered })
}
const request = (
  teamId: number,
  stream: string,
  id: string,
  reason: string,
  event: string,
  since: unknown = null,
) => ({
  ...{ teamId, stream, id, reason, origin: `event:${event}`, since },
})

test('a batch of two teams writes each stream once, then its findings, its requests, and what it settles; then it is committed', async () => {
  for (const teamId of [2, 1]) store(teamId, 'patient', patient('a'))
  store(1, 'patient', patient('losing'))
  store(1, 'patient', patient('sparse'))
  store(2, 'patient', patient('late'))
  store(1, 'patient', patient('passed'))
  store(2, 'patient', { id: 'summary' })
  const submitted = { is_submitted: true, submitted_at: noonPlus(5), responses: ['m1', 'm2'] }
  const packet = { id: 'k', packet: { id: 'p' }, form_index: 1, ...submitted }
  store(2, 'packet_response', packet)
  store(2, 'packet_response', { ...packet, id: 'part' })
  store(1, 'packet_response', { ...packet, id: 'part' })
  store(2, 'patient', {}, { event_type: 'deleted' })
  store(1, 'invoice', { id: 'i' })
  stored.push({ ...stored[0]!, seq: '13', eventId: 'e13', body: Buffer.from('{') })
  losing = ['1/losing', '1/part', '2/part']
  sparse = ['1/sparse']
  conflicting = ['late', 'k'].map((id) => ({ teamId: 2, id }))
  earlier = ['1/patient/passed', '2/patient/passed', '2/packet_response/k', '1/form/a']
  const loaded = await writeAll()
  const lacking = (event: string) => ({
    ...{ recordId: 'part', origin: `event:${event}` },
    reason: 'lacks values that are stored, and the record cannot be fetched by id',
    body: `{"form_index":1,"id":"part","is_submitted":true,"packet":{"id":"p"},"responses":["m1","m2"],"submitted_at":"${noonPlus(5)}"}`,
  })
  const dead = (event: string, reason: string, body: Buffer) => ({
    recordId: null,
    origin: `event:${event}`,
    reason,
    body,
  })
  const noon = noonPlus(5)
  expect(steps).toEqual([
    ['erasures of', [1, 2]],
    ['overtaken', eventsOf(stored)],
    ['compare', 'packet_responses', ['2/k', '2/part', '1/part']],
    ['dead letters', { teamId: 1, stream: 'packet_responses', runId: null }, [lacking('e10')]],
    ['dead letters', { teamId: 2, stream: 'packet_responses', runId: null }, [lacking('e9')]],
    ['merge', 'packet_responses', 1, { kind: 'events' }, [1, 2]],
    ['compare', 'patients', ['2/a', '1/a', '1/losing', '1/sparse', '2/late', '1/passed']],
    ['merge', 'patients', 5, { kind: 'events' }, [1, 2]],
    [
      'dead letters',
      { teamId: 2, stream: 'inbox', runId: null },
      [dead('e13', 'an event that is not JSON', Buffer.from('{'))],
    ],
    ['findings', 'inbox', [['[1,"source.invoice","string"]', 1]]],
    [
      'dead letters',
      { teamId: 2, stream: 'patients', runId: null },
      [dead('e11', 'a deletion without the id of its record', stored[10]!.body)],
    ],
    ['findings', 'patients', []],
    [
      'requests',
      [
        request(2, 'patients', 'summary', 'partial', 'e7'),
        request(2, 'responses', 'm1', 'member', 'e8', noon),
        request(2, 'responses', 'm2', 'member', 'e8', noon),
        request(1, 'patients', 'losing', 'partial', 'e3'),
        request(1, 'patients', 'sparse', 'partial', 'e4'),
        request(2, 'patients', 'late', 'contested', 'e5'),
        request(1, 'patients', 'passed', 'contested', 'e6'),
      ],
    ],
    ['done', ['e1', 'e2', 'e3', 'e4', 'e5', 'e6', 'e7', 'e8', 'e9', 'e10', 'e12']],
    ['dead', ['e11', 'e13']],
    ['commit'],
  ])
  expect(loaded).toMatchObject({ rows: stored, refetches: 7 })
  expect(eventsOf([...loaded.dead])).toEqual(['e11', 'e13'])
  expect(loaded.settled.map(({ seq }) => seq)).toEqual([
    '1',
    '2',
    '3',
    '4',
    '5',
    '6',
    '7',
    '8',
    '9',
    '10',
    '12',
    '11',
    '13',
  ])
})

test('a batch without a state compares and merges nothing', async () => {
  store(1, 'invoice', { id: 'i' })
  expect(await writeAll()).toMatchObject({ refetches: 0 })
  expect(steps.map(([step]) => step)).toEqual([
    'erasures of',
    'findings',
    'requests',
    'done',
    'dead',
    'commit',
  ])
})

test('events of an erased patient are removed before anything is compared, and counted by their records', async () => {
  const hashOf = ({ stream, id }: { stream: string; id: string }) => `${stream} ${id}`
  vi.mocked(openErasuresOf).mockResolvedValue(new Map([[1, { teamId: 1, hashOf }]]))
  const asked: string[][] = []
  vi.mocked(erasedAmong).mockImplementation(async (_, hashes) => {
    asked.push([...hashes])
    return new Map([['patients erased', 'the patient']])
  })
  store(1, 'patient', patient('erased'))
  store(1, 'patient', patient('erased', { city: 'Bonn' }))
  store(2, 'patient', patient('erased'))
  store(1, 'message', { id: 'm', patient: 'erased', content: 'x' })
  store(1, 'patient', patient('stays'))
  stored.push({ ...stored[0]!, seq: '6', eventId: 'e6', body: Buffer.from('{"cut: "long-word-1') })
  const { rows } = await writeAll()
  expect(eventsOf(rows)).toEqual(['e3', 'e5', 'e6'])
  expect(asked).toHaveLength(1)
  expect(asked[0]).toEqual(
    expect.arrayContaining(['patients erased', 'messages m', 'patients stays', 'patients long-word-1']),
  )
  const skipped = (hash: string, times: number) => ({ hash, patient: 'the patient', times })
  expect(steps.slice(0, 5)).toEqual([
    ['skipped', { teamId: 1, hashOf }, [skipped('patients erased', 2), skipped('messages m', 1)]],
    ['remove', ['e1', 'e2', 'e4']],
    ['overtaken', ['e3', 'e5', 'e6']],
    ['compare', 'patients', ['2/erased', '1/stays']],
    ['merge', 'patients', 2, { kind: 'events' }, [2]],
  ])
  expect(steps.slice(-3)).toEqual([['done', ['e3', 'e5']], ['dead', ['e6']], ['commit']])
})

test('other work of the process goes on while the lines of many records are written', async () => {
  for (let at = 0; at < 120; at++) store(1, 'patient', patient(`p${at}`))
  const gathered = await gather(stored, loading.apiVersionOf)
  expect(await turnsDuring(() => write(session, loading, { rows: stored, gathered }))).toBe(2)
})
