/** The steps of storing answers, without a warehouse: one transaction, in which order, and what becomes of each request. */
import { beforeEach, expect, test, vi } from 'vitest'
import type { Envelope } from '../../../src/core/envelope.ts'
import type { Instant } from '../../../src/core/time.ts'
import type { DueRow } from '../../../src/extract/conflicts/due-rows.ts'
import type { FetchResult } from '../../../src/extract/conflicts/fetch-by-id.ts'
import { settleAnswers } from '../../../src/extract/conflicts/settle-answers.ts'
import type { BatchToWrite } from '../../../src/load/merge/write-batch.ts'
import type { Findings } from '../../../src/normalize/lines.ts'
import { linesIn } from '../../../src/normalize/split-lines.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Session } from '../../../src/warehouse/connect.ts'
import type { ReportDefect } from '../../../src/warehouse/defects.ts'
import { at, recordEnvelope } from '../../support/envelopes.ts'

const steps: unknown[] = []
const note = (...step: unknown[]) => void steps.push(step)
/** Ids that lose to the stored state; ids that Postgres refuses; the stored versions. */
let [losing, refused]: string[][] = [[], []]
let stored: Map<string, { version: Instant; deleted: boolean }>

const idsOf = (rows: readonly DueRow[]) => rows.map(({ id }) => id)
vi.mock('../../../src/load/merge/write-batch.ts', () => ({
  prepareStaging: async (_: unknown, { name }: { name: string }) => note('stage', name),
  async writeBatch(_: unknown, { stream, lines, from }: BatchToWrite) {
    const records = linesIn(lines.records).map((line) => line.split('\t'))
    const ids = records.map(([, , id]) => id!)
    note('write', stream.name, ids, from)
    versions.push(...records.map((cells) => cells[3]!))
    if (ids.some((id) => refused!.includes(id))) throw Object.assign(new Error('no'), { code: '22P05' })
    return { conflicts: losing!.map((id) => ({ teamId: 3, id })) }
  },
}))
vi.mock('../../../src/load/dead-letters.ts', () => ({
  storeDeadLetters: async (...[, place, deadLetters]: unknown[]) => note('dead', place, deadLetters),
  recordFindings: async (...[, stream, { problemsAt }]: [unknown, unknown, Findings]) =>
    note('findings', stream, [...problemsAt]),
}))
vi.mock('../../../src/load/merge/skip-unchanged.ts', () => ({
  storedVersions: async (...[, place, ids]: unknown[]) => {
    note('stored?', place, ids)
    return stored
  },
}))
vi.mock('../../../src/extract/conflicts/due-rows.ts', async (original) => ({
  ...(await original<typeof import('../../../src/extract/conflicts/due-rows.ts')>()),
  lockRows: async (_: unknown, rows: readonly DueRow[]) => note('lock', idsOf(rows)),
  settleRows: async (_: unknown, rows: readonly DueRow[]) => note('settle', idsOf(rows)),
  postpone: async (
    ...[, rows, pause, counted]: [unknown, readonly DueRow[], (row: DueRow) => number, string]
  ) =>
    note(
      'postpone',
      rows.map((row) => `${row.id} ${pause(row)}`),
      counted,
    ),
}))

let versions: string[]
beforeEach(() => {
  steps.length = 0
  ;[losing, refused, stored, versions] = [[], [], new Map(), []]
})

const session = {
  db: 'the warehouse',
  client: { query: async (text: string) => note(text) },
} as unknown as Session
const row = (id: string, more: Partial<DueRow> = {}): DueRow => ({
  ...{ teamId: 3, stream: 'patients', id, reason: 'contested', origin: `event:of ${id}`, requests: '1' },
  ...{ attempts: 0, failures: 0, takenAt: `when ${id} was taken`, ...more },
})
const record = (id: string): FetchResult => {
  const envelope: Envelope = recordEnvelope({ id }, { teamId: 3, stream: 'patients', observedAt: at(5) })
  return { kind: 'record', envelope }
}
const gone: FetchResult = { kind: 'gone', observedAt: at(6) }
const later = { kind: 'later', error: new Error('no') } as unknown as FetchResult
const dead = (id: string): FetchResult => {
  return { kind: 'dead', deadLetter: { recordId: id, origin: 'o', reason: 'r', body: 'null' } }
}
const reportDefect: ReportDefect = async (_, error, met) => note('report', (error as Error).message, met)
type Answered = readonly [id: string, answer: FetchResult, more?: Partial<DueRow>]
const settle = (...all: readonly Answered[]) =>
  settleAnswers(
    session,
    patients,
    all.map(([id, answer, more]) => ({ row: row(id, more), answer })),
    at(10),
    reportDefect,
  )
const PLACE = { teamId: 3, stream: 'patients' }
const MISSING = JSON.stringify([3, 'id', 'of an event; the service has no such record'])

test('answers are written as of the first request, followed by dead letters and findings; all rows are locked before any is settled', async () => {
  losing = ['lost']
  const partial = { reason: 'partial' } as const
  await settle(
    ['a', record('a')],
    ['lost', record('lost'), { attempts: 1, failures: 1 }],
    ['gone', gone],
    ['not yet', gone, { ...partial, attempts: 2 }],
    ['never', gone, { ...partial, attempts: 3 }],
    ['never too', gone, { reason: 'member', attempts: 3 }],
    ['later', later, { attempts: 2 }],
    ['dead', dead('dead')],
  )
  const ids = ['a', 'lost', 'gone', 'not yet', 'never', 'never too', 'later', 'dead']
  expect(steps).toEqual([
    ['stored?', PLACE, ids],
    ['stage', 'patients'],
    ['begin'],
    ['write', 'patients', ['a', 'lost', 'gone'], { kind: 'answers', requestedAt: 'when a was taken' }],
    ['dead', { ...PLACE, runId: null }, [{ recordId: 'dead', origin: 'o', reason: 'r', body: 'null' }]],
    ['findings', 'patients', [[MISSING, 2]]],
    ['lock', ids],
    ['settle', ['a', 'gone', 'never', 'never too', 'dead']],
    ['postpone', ['not yet 4000', 'lost 4000'], undefined],
    ['postpone', ['later 4000'], 'failure'],
    ['commit'],
  ])
})

test('the third answer, and no earlier one, overrules a stored state that is dated ahead; no other answer gets a later version', async () => {
  const ahead = '2026-02-01T00:00:00.000000Z' as Instant
  for (const id of ['first', 'third']) stored.set(id, { version: ahead, deleted: false })
  stored.set('present', { version: at(10), deleted: false })
  const lost = { attempts: 2 }
  await settle(
    ['first', record('first'), { attempts: 1 }],
    ['third', record('third'), lost],
    ['present', record('present'), lost],
    ['unknown', record('unknown'), lost],
  )
  expect(versions).toEqual([at(5), '2026-02-01T00:00:00.000001Z', at(5), at(5)])
})

test('a record that is gone, and is stored as deleted, gets no second tombstone, and is not reported as missing', async () => {
  stored.set('deleted', { version: at(1), deleted: true })
  stored.set('kept', { version: at(1), deleted: false })
  await settle(['deleted', gone], ['kept', gone, { reason: 'partial', attempts: 3 }])
  expect(steps.slice(3, 6)).toEqual([
    ['write', 'patients', [], expect.anything()],
    ['dead', { ...PLACE, runId: null }, []],
    ['findings', 'patients', []],
  ])
  expect(steps).toContainEqual(['settle', ['deleted', 'kept']])
})

test('if Postgres refuses a record, the batch is halved until that record alone becomes a dead letter', async () => {
  refused = ['c']
  await settle(...['a', 'b', 'c'].map((id): Answered => [id, record(id)]))
  // The reporter knows which failures are defects.
  const consequence = 'fetched records are stored one by one'
  expect(steps.filter((step) => (step as string[])[0] === 'report')).toEqual(
    Array(3).fill(['report', 'no', { teamIds: [3], consequence }]),
  )
  expect(
    steps
      .filter((step) => ['write', 'rollback', 'dead', 'settle', 'commit'].includes((step as string[])[0]!))
      .map((step) => (step as unknown[]).slice(0, 3)),
  ).toEqual([
    ['write', 'patients', ['a', 'b', 'c']],
    ['rollback'],
    ['write', 'patients', ['a']],
    ['dead', { ...PLACE, runId: null }, []],
    ['settle', ['a']],
    ['commit'],
    ['write', 'patients', ['b', 'c']],
    ['rollback'],
    ['write', 'patients', ['b']],
    ['dead', { ...PLACE, runId: null }, []],
    ['settle', ['b']],
    ['commit'],
    ['write', 'patients', ['c']],
    ['rollback'],
    ['write', 'patients', []],
    [
      ...['dead', { ...PLACE, runId: null }],
      [
        {
          ...{ recordId: 'c', origin: 'event:of c refetch', body: '{"id":"c"}' },
          reason: 'the warehouse refused the record (SQLSTATE 22P05)',
        },
      ],
    ],
    ['settle', ['c']],
    ['commit'],
  ])
})
