/** How a batch that failed is split until the event at fault is alone, and what becomes of that one and of the others. */
import { beforeEach, expect, test, vi } from 'vitest'
import { type InboxRow, postpone, settle, takeThese } from '../../../src/ingest/drain/inbox-rows.ts'
import { prepare, write } from '../../../src/ingest/drain/load-events.ts'
import { settleOneByOne } from '../../../src/ingest/drain/settle-one-by-one.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'

vi.mock('../../../src/ingest/drain/inbox-rows.ts')
vi.mock('../../../src/ingest/drain/load-events.ts')
vi.mock('../../../src/load/dead-letters.ts')

let steps: unknown[]
/** By event, what writing a batch with it fails with. */
let faults: Record<string, Error>
/** Events that another process has taken. */
let gone: string[]

const DB = 'the database'
const session = {
  db: DB,
  client: { query: async (text: string) => void steps.push(text) },
} as unknown as Parameters<typeof settleOneByOne>[0]
const loading = { teamIds: [1], apiVersionOf: () => 'v2.1', usual: {} as never, backoffMs: [1_000, 10_000] }
const refused = (code: string) => Object.assign(new Error('value canary'), { code })

const row = (seq: string, more: Partial<InboxRow> = {}) =>
  ({
    ...{ seq, teamId: 1, eventId: `e${seq}`, attempts: 0, source: 'patient', recordId: `r${seq}` },
    ...{ body: Buffer.from(`body ${seq}`), ...more },
  }) as InboxRow
const rows = (...seqs: readonly string[]) => seqs.map((seq) => row(seq))

beforeEach(() => {
  ;[steps, faults, gone] = [[], {}, []]
  vi.mocked(takeThese).mockImplementation(async (given, seqs) => {
    expect(given).toBe(session)
    return rows(...seqs.filter((seq) => !gone.includes(seq)))
  })
  vi.mocked(prepare).mockImplementation(async (given, own, take) => {
    expect([given, own]).toEqual([session, loading])
    const taken = await take()
    return taken.length === 0 ? null : ({ rows: taken } as never)
  })
  vi.mocked(write).mockImplementation(async (given, own, prepared) => {
    expect([given, own]).toEqual([session, loading])
    const seqs = prepared.rows.map(({ seq }) => seq)
    steps.push(`write ${seqs.join()}`)
    const fault = seqs.map((seq) => faults[seq]).find((each) => each !== undefined)
    if (fault !== undefined) throw fault
    return { rows: prepared.rows } as never
  })
  vi.mocked(postpone).mockImplementation(async (given, { seq }, milliseconds) => {
    expect(given).toBe(session)
    steps.push(`postpone ${seq} by ${milliseconds}`)
  })
  vi.mocked(settle).mockImplementation(async (given, settled, status) => {
    expect(given).toBe(session)
    steps.push(`${status} ${settled.map(({ seq }) => seq).join()}`)
    return []
  })
  vi.mocked(storeDeadLetters).mockImplementation(async (db, place, deadLetters) => {
    expect(db).toBe(DB)
    steps.push([place, ...deadLetters])
    return deadLetters.length
  })
})

/** Failures that were passed on, each with the events of its part. */
const failures: string[] = []
const settleAll = async (all: readonly InboxRow[]) => {
  const { loaded, postponed, deadLettered } = await settleOneByOne(
    session,
    loading,
    all,
    async (error, part) => {
      failures.push(`${(error as Error).message}: ${part.map(({ seq }) => seq).join()}`)
    },
  )
  const seqsOf = (some: readonly InboxRow[]) => some.map(({ seq }) => seq).join()
  return {
    loaded: loaded.map((each) => seqsOf(each.rows)),
    postponed: seqsOf(postponed),
    deadLettered: seqsOf(deadLettered),
  }
}

test('a batch is halved, the earlier half first, until an event at fault is alone; it waits, and all others are loaded', async () => {
  faults = { 2: refused('22001'), 4: refused('23514') }
  expect(await settleAll(rows('1', '2', '3', '4', '5'))).toEqual({
    ...{ loaded: ['1', '3', '5'], postponed: '2,4', deadLettered: '' },
  })
  expect(steps).toEqual([
    ...['write 1,2,3,4,5', 'rollback'],
    ...['write 1,2', 'rollback', 'write 1', 'write 2', 'rollback', 'postpone 2 by 1000'],
    ...['write 3,4,5', 'rollback', 'write 3'],
    ...['write 4,5', 'rollback', 'write 4', 'rollback', 'postpone 4 by 1000', 'write 5'],
  ])
})

test('an event that failed before waits longer, and after its last attempt becomes a dead letter in one transaction', async () => {
  faults = { 1: refused('54000') }
  const one = (attempts: number, more: Partial<InboxRow> = {}) => settleAll([row('1', { attempts, ...more })])
  expect(await one(1)).toEqual({ loaded: [], postponed: '1', deadLettered: '' })
  expect(steps.splice(0)).toEqual(['write 1', 'rollback', 'postpone 1 by 10000'])

  expect(await one(2, { teamId: 7 })).toEqual({ loaded: [], postponed: '', deadLettered: '1' })
  const deadLetter = {
    ...{ recordId: 'r1', origin: 'event:e1', body: Buffer.from('body 1') },
    reason: 'the warehouse refused the event (SQLSTATE 54000)',
  }
  const place = { teamId: 7, stream: 'patients', runId: null }
  expect(steps.splice(0)).toEqual([
    ...['write 1', 'rollback', 'begin', [place, deadLetter], 'dead 1', 'commit'],
  ])
  // Of an unknown source, or without one, it is one of the inbox.
  for (const source of ['canary', null]) {
    await one(3, { source, recordId: null })
    expect(steps.splice(0)[3]).toEqual([
      { teamId: 1, stream: 'inbox', runId: null },
      { ...deadLetter, recordId: null },
    ])
  }
})

test('each failure of a part is passed on, so that a defect behind a refusal is noticed too', async () => {
  failures.length = 0
  faults = { 1: refused('22001'), 4: new TypeError('canary') }
  await settleAll(rows('1', '2', '3', '4'))
  expect(failures.splice(0)).toEqual([
    ...['value canary: 1,2,3,4', 'value canary: 1,2', 'value canary: 1', 'canary: 3,4', 'canary: 4'],
  ])
  faults = {}
  await settleAll(rows('1', '2'))
  expect(failures).toEqual([])
})

test('an error of our own code is the fault of an event too, and is named without what it says', async () => {
  faults = { 1: new TypeError('canary is not a function') }
  expect(await settleAll([row('1', { attempts: 2 })])).toMatchObject({ deadLettered: '1' })
  expect(JSON.stringify(steps[3])).toMatch(/"reason":"the event could not be loaded: /)
  expect(JSON.stringify(steps)).not.toContain('canary')
})

test('events that another process has taken meanwhile are left to it', async () => {
  faults = { 2: refused('22001') }
  gone = ['2', '3']
  expect(await settleAll(rows('1', '2', '3'))).toEqual({ loaded: ['1'], postponed: '', deadLettered: '' })
  gone = ['1', '2', '3']
  expect(await settleAll(rows('1', '2', '3'))).toEqual({ loaded: [], postponed: '', deadLettered: '' })
  expect(steps).toEqual(['write 1'])
})

test.each([
  ['a connection that is lost', 'ECONNRESET'],
  ['a table that is locked', '55P03'],
  ['a disk that is full', '53100'],
])('%s is the fault of no event: nothing is blamed, and nothing more is tried', async (_, code) => {
  faults = { 1: refused('22001'), 2: refused(code) }
  await expect(settleAll(rows('1', '2', '3'))).rejects.toMatchObject({ code })
  expect(steps).toEqual([
    ...['write 1,2,3', 'rollback', 'write 1', 'rollback', 'postpone 1 by 1000'],
    ...['write 2,3', 'rollback'],
  ])
})
