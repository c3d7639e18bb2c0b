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
  name: 'documents' | 'webhook_deliveries',
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
