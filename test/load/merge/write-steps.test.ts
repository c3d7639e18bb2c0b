/** What a batch counts of its winners and losers, which of them are dropped, and how rows reach tables with policies. */
import { Writable } from 'node:stream'
import { beforeEach, expect, test, vi } from 'vitest'
import { recordFindings } from '../../../src/load/dead-letters.ts'
import { withoutErased } from '../../../src/load/erasures.ts'
import { statementsOf } from '../../../src/load/merge/statements.ts'
import { type BatchSource, sendCopy, writeBatch } from '../../../src/load/merge/write-batch.ts'
import { type BatchLines, linesOf } from '../../../src/normalize/lines.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Session } from '../../../src/warehouse/connect.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'

vi.mock('../../../src/load/dead-letters.ts')
vi.mock('../../../src/load/erasures.ts')

const statements = statementsOf(patients)
let kept: BatchLines | null

beforeEach(() => {
  kept = null
  vi.mocked(recordFindings).mockReset()
  vi.mocked(withoutErased)
    .mockReset()
    .mockImplementation(async (_, __, lines) => kept ?? lines)
})

/** A session that notes statements with their values, and the bytes of each copy. */
function session(outcomes: readonly object[] = [], isBound = false) {
  const asked: unknown[] = []
  const query = (asking: string | { text: string }, values?: readonly unknown[]) => {
    if (typeof asking !== 'string') {
      const { text } = asking
      return new Writable({
        write: (piece: Buffer, _encoding, done) => {
          asked.push([text, piece.toString()])
          done()
        },
      })
    }
    asked.push(values === undefined ? asking : [asking, ...values])
    if (asking.includes('row_security_active')) return Promise.resolve({ rows: [{ bound: isBound }] })
    return Promise.resolve({ rows: asking.includes('judged') ? outcomes : [] })
  }
  return { asked, session: { client: { query }, db: 'the database' } as unknown as Session }
}
const made = (teamId: number) => ({ teamId, stream: 'patients' as const, observedAt: at(0) })
const envelopes = [
  ...['a', 'b', 'c'].map((id) => recordEnvelope({ id }, made(1))),
  ...['d', 'e'].map((id) => tombstoneEnvelope(id, made(2))),
]
const lines = () => linesOf(patients, envelopes)
const outcome = (team_id: number, id: string, more: object = {}) => ({
  ...{ team_id, id, tombstone: false, lost: false, conflict: false, ...more },
})

test('of winners, losers and conflicts in two teams each is counted once, and losers are dropped from every table', async () => {
  const { asked, session: own } = session([
    outcome(1, 'a', { lost: true }),
    outcome(1, 'b', { conflict: true }),
    outcome(2, 'd', { lost: true, tombstone: true, conflict: true }),
  ])
  const from: BatchSource = { kind: 'events' }
  const withoutErasures = new Set([1])
  expect(await writeBatch(own, { stream: patients, lines: lines(), from, withoutErasures })).toEqual({
    ...{ changed: 2, deleted: 1, erased: 0, problems: 0 },
    conflicts: [
      { teamId: 1, id: 'b' },
      { teamId: 2, id: 'd' },
    ],
  })
  const dropped = statements.dropLosers.map((statement) => [statement, [1, 2], ['a', 'd']])
  expect(dropped.length).toBeGreaterThan(1)
  const at = asked.findIndex((each) => Array.isArray(each) && each[0] === statements.merge.events)
  expect(asked.slice(at)).toEqual([[statements.merge.events], ...dropped, statements.mergeTables])
  expect(vi.mocked(withoutErased).mock.calls).toEqual([
    [own, patients, expect.anything(), { withoutErasures }],
  ])
  expect(vi.mocked(recordFindings).mock.calls).toEqual([['the database', 'patients', lines().findings]])
})

test.each(['pages', 'answers'] as const)(
  '%s are merged as of the moment before they were requested',
  async (kind) => {
    const { asked, session: own } = session()
    await writeBatch(own, { stream: patients, lines: lines(), from: { kind, requestedAt: 'noon' } })
    expect(asked.slice(-2)).toEqual([[statements.merge[kind], 'noon'], statements.mergeTables])
  },
)

test('records of erased patients are counted apart, and where no other is left nothing is merged', async () => {
  kept = linesOf(patients, envelopes.slice(1, 4))
  const from: BatchSource = { kind: 'events' }
  expect(await writeBatch(session().session, { stream: patients, lines: lines(), from })).toMatchObject({
    ...{ changed: 2, deleted: 1, erased: 2 },
  })
  kept = linesOf(patients, [])
  const { asked, session: own } = session()
  expect(await writeBatch(own, { stream: patients, lines: lines(), from })).toMatchObject({
    ...{ changed: 0, deleted: 0, erased: 5, conflicts: [] },
  })
  expect(asked).toEqual([])
})

test('a copy that Postgres refuses is the failure of the batch, and no statement follows it', async () => {
  const { session: own } = session()
  const refused = Object.assign(new Error('refused'), { code: '22021' })
  const copies: string[] = []
  const query = (asking: string | { text: string }) => {
    if (typeof asking === 'string') return copies.length > 0 ? copies.push(asking) : own.client.query(asking)
    copies.push(asking.text)
    const later = (done: (error: Error) => void) => setImmediate(() => done(refused))
    return new Writable({ write: (_piece, _encoding, done) => done(), final: later })
  }
  const batch = { stream: patients, lines: lines(), from: { kind: 'events' } } as const
  await expect(writeBatch({ ...own, client: { query } } as never, batch)).rejects.toBe(refused)
  expect(copies).toEqual([expect.stringMatching(/^copy /)])
})

const COPY = 'copy intake.export_rows\n  (team_id, export_id) from stdin'

test('rows of a login with policies pass through a table of its session, which is empty after; it is asked about once', async () => {
  const { asked, session: own } = session([], true)
  await sendCopy(own.client, COPY, Buffer.alloc(0))
  expect(asked).toEqual([])
  await sendCopy(own.client, COPY, Buffer.from('1\te\n'))
  const passing = 'passing_intake_export_rows'
  const passed = [
    `create temporary table if not exists ${passing} (like intake.export_rows including defaults)`,
    [`copy pg_temp.${passing} (team_id, export_id) from stdin`, '1\te\n'],
    `insert into intake.export_rows (team_id, export_id) select team_id, export_id from pg_temp.${passing}; truncate pg_temp.${passing}`,
  ]
  expect(asked.splice(0)).toEqual([
    [expect.stringContaining('row_security_active'), 'intake.patients'],
    ...passed,
  ])
  await sendCopy(own.client, COPY, Buffer.from('1\te\n'))
  expect(asked.splice(0)).toEqual(passed)
  // Tables of the session, and those without policies, are copied into.
  const staged = 'copy "pg_temp"."stage_patients" ("id") from stdin'
  await sendCopy(own.client, staged, Buffer.from('a\n'))
  expect(asked).toEqual([[staged, 'a\n']])
})

test('a login without policies copies into the tables, whatever another connection may do', async () => {
  const bound = session([], true)
  await sendCopy(bound.session.client, COPY, Buffer.from('1\te\n'))
  const { asked, session: own } = session()
  await sendCopy(own.client, COPY, Buffer.from('1\te\n'))
  await sendCopy(own.client, COPY, Buffer.from('2\te\n'))
  expect(asked.slice(1)).toEqual([
    [COPY, '1\te\n'],
    [COPY, '2\te\n'],
  ])
})
