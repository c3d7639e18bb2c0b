/** Differences that are looked at again, many of them, or of a log: which records are asked for, and what each counts as. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { Instant } from '../../../src/core/time.ts'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { confirmDifferences, presentOf } from '../../../src/reconcile/verify/confirm.ts'
import { beginExpected } from '../../../src/reconcile/verify/expect-raw.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { ago, openRig, type Rig } from '../../extract/support/reading.ts'

let rig: Rig
let scanning: Session
let pauses: number[]
beforeEach(async () => {
  rig = await openRig()
  scanning = await openSession({ url: rig.url, purpose: 'test' })
  pauses = []
})
afterEach(async () => {
  await scanning.close()
  await rig[Symbol.asyncDispose]()
})

/** The tables of the stream; nothing of them is expected yet; `hold` stores records meanwhile. */
async function compare(
  name: 'documents' | 'patients' | 'webhook_configs' | 'webhook_deliveries',
  hold: () => Promise<void>,
  { requests = 1, loggedUntil = null as Instant | null } = {},
) {
  const clock = { ...systemClock, sleep: async (milliseconds: number) => void pauses.push(milliseconds) }
  const { session } = rig
  const startedAt = ago(30)
  const from = await presentOf(session)
  await hold()
  const source = await rig.source(name, { clock })
  const tables = await describeTables(session, streamNamed(name)!)
  await beginExpected(session, tables)
  const comparing = { source, session, scanning, tables, loggedUntil, requests }
  return await confirmDifferences(comparing, { startedAt, from })
}

test('each of two hundred and two records is fetched by its id, where a list would take more requests, and compared', async () => {
  const ids = Array.from({ length: 202 }, (_, at) => `d${String(at).padStart(3, '0')}`)
  const document = (id: string) => ({ id, name: 'D', text: '' })
  // The last one is there after all, as it is stored.
  rig.service.records.documents = [document(ids.at(-1)!)]
  const hold = () => rig.hold('documents', ids.map(document), ago(60))
  const found = await compare('documents', hold, { requests: 202 })
  expect(rig.service.received.map(({ url }) => url.split('/').at(-1)).toSorted()).toEqual(ids)
  expect(pauses).toEqual([500])
  const gone = {
    kind: 'extra',
    fields: [],
    certain: false,
    newer: false,
    payloadOnly: false,
    isOrphan: false,
  }
  expect(found).toEqual({
    differences: ids.slice(0, -1).map((id) => ({ id, ...gone })),
    ...{ newer: 1, notDue: 0, payloadsOnly: 0 },
  })
})

test('a difference that is gone at the first look is not looked at again, though events came lately', async () => {
  const document = { id: 'd1', name: 'D', text: '' }
  rig.service.records.documents = [document]
  await rig.rows(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
     values ($1, 'e', '\\x00', (now() at time zone 'UTC')::date, now(), '', 'done')`,
    [rig.teamId],
  )
  const found = await compare('documents', () => rig.hold('documents', [document], ago(60)))
  expect(found).toEqual({ differences: [], newer: 1, notDue: 0, payloadsOnly: 0 })
  expect([pauses, rig.service.received.length]).toEqual([[1_000], 1])
})

test('an entry of a log that is loaded meanwhile is newer; only one that is not loaded yet is not due', async () => {
  const entry = (id: string) => ({ id, event: 'e', status: 'sent', created_at: ago(5) })
  const stored = entry('d1')
  rig.service.records.webhookDeliveries = [stored]
  const hold = () => rig.hold('webhook_deliveries', [stored], ago(4))
  const found = await compare('webhook_deliveries', hold, { loggedUntil: ago(10) })
  expect(found).toEqual({ differences: [], newer: 1, notDue: 0, payloadsOnly: 0 })
  expect(rig.service.received.map(({ url }) => url)).toEqual([expect.stringContaining('/webhooks/events')])
})

const document = (id: string) => ({ id, name: 'D', text: '' })
const asked = () => rig.service.received.map(({ url }) => url.split('/').at(-1)!)

test.each([
  [50, 1, 50],
  [51, 1, 1],
  [51, 51, 51],
  [52, 51, 1],
])(
  '%i differences of a stream that takes %i request(s) to read are looked at again with %i request(s)',
  async (count, requests, sent) => {
    const ids = Array.from({ length: count }, (_, at) => `p${String(at).padStart(2, '0')}`)
    const hold = () =>
      rig.hold(
        'patients',
        ids.map((id) => ({ id, first_name: 'A' })),
        ago(60),
      )
    const { differences, newer } = await compare('patients', hold, { requests })
    expect([differences.map(({ id }) => id), newer]).toEqual([ids, 0])
    expect(asked().sort()).toEqual(sent === 1 ? ['patients'] : ids)
  },
)

test('certain differences are not looked at again, and all are in the order of their ids', async () => {
  await rig.hold('documents', ['a', 'm', 'n', 'z'].map(document), ago(60))
  await rig.rows(`delete from intake_raw.records where id in ('m', 'n')`)
  const { differences } = await compare('documents', async () => {})
  expect(differences.map(({ id, certain }) => [id, certain])).toEqual([
    ['a', false],
    ['m', true],
    ['n', true],
    ['z', false],
  ])
  expect(asked().sort()).toEqual(['a', 'z'])
})

const LONG = [1_000, 2_500, 6_000]
test.each([
  ['an event came lately', 'documents', true, '9 minutes', LONG],
  ['its last event came long ago', 'documents', true, '11 minutes', [500]],
  ['another team has had an event', 'documents', false, '1 minute', [500]],
  ['no event is about the stream', 'webhook_configs', true, '1 minute', [500]],
] as const)(
  'what differs is looked at for as long as loads may take where %s',
  async (_, name, isOwn, since, expected) => {
    await rig.rows(
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
     select $1, 'e', '\\x00', (at at time zone 'UTC')::date, at, '', 'done' from (select now() - $2::interval as at) came`,
      [isOwn ? rig.teamId : rig.otherId, since],
    )
    const { differences } = await compare(name, () => rig.hold(name, [document('d')], ago(60)))
    expect([differences.map(({ id }) => id), pauses]).toEqual([['d'], expected])
  },
)
