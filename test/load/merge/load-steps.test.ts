/** How a batch is loaded: in one transaction; where Postgres refuses a record, in halves, in the same way as the whole. */
import { beforeEach, expect, test, vi } from 'vitest'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { type LoadMode, loadBatch } from '../../../src/load/merge/load.ts'
import { prepareStaging, writeBatch } from '../../../src/load/merge/write-batch.ts'
import { assertOwned } from '../../../src/load/slice.ts'
import { linesOf } from '../../../src/normalize/lines.ts'
import { linesIn } from '../../../src/normalize/split-lines.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Session } from '../../../src/warehouse/connect.ts'
import { at, recordEnvelope } from '../../support/envelopes.ts'

vi.mock('../../../src/load/merge/write-batch.ts')
vi.mock('../../../src/load/dead-letters.ts')
vi.mock('../../../src/load/slice.ts')

let steps: unknown[]
/** By record, or by the way of loading, the SQLSTATE that it fails with. */
let faults: Record<string, string>

const DB = 'the database'
const session = {
  db: DB,
  client: { query: async (text: string) => void steps.push(text) },
} as unknown as Session
const taken = {
  ...{ teamId: 1, stream: 'patients', slice: '', epoch: '3', runId: '7', cursor: null, takenAt: 'noon' },
} as const
const unreadable = { recordId: null, origin: 'run:7 page:1', reason: 'has no id', body: '{}' }

beforeEach(() => {
  ;[steps, faults] = [[], {}]
  vi.mocked(prepareStaging).mockImplementation(async (given, { name }) => {
    expect(given).toBe(session)
    steps.push(`stage ${name}`)
  })
  vi.mocked(writeBatch).mockImplementation(async (given, { stream, lines, from, ...more }) => {
    expect([given, stream, more]).toEqual([session, patients, {}])
    const ids = linesIn(lines.root).map((line) => line.split('\t')[1]!)
    steps.push([ids.join(''), from])
    const code = [from.kind, ...ids].map((each) => faults[each]).find((each) => each !== undefined)
    if (code !== undefined) throw Object.assign(new Error('refused'), { code })
    const count = ids.length
    const conflicts = ids.filter((id) => 'ad'.includes(id)).map((id) => ({ teamId: 1, id }))
    return { changed: count, deleted: 10 * count, erased: 100 * count, problems: 1_000 * count, conflicts }
  })
  vi.mocked(storeDeadLetters).mockImplementation(async (db, place, deadLetters) => {
    expect([db, place]).toEqual([DB, taken])
    steps.push(...deadLetters)
    return deadLetters.length
  })
  vi.mocked(assertOwned).mockImplementation(async (db, own) => {
    expect([db, own]).toEqual([DB, taken])
    steps.push('owned')
  })
})

const load = (ids: string, mode: LoadMode, deadLetters: readonly (typeof unreadable)[] = []) => {
  const envelopes = [...ids].map((id) =>
    recordEnvelope({ id }, { teamId: 1, stream: 'patients', observedAt: at(0), origin: `run:7 ${id}` }),
  )
  const lines = linesOf(patients, envelopes)
  return loadBatch(session, { stream: patients, taken, lines, deadLetters }, mode)
}
const EMPTY = { kind: 'empty' }
const PAGES = { kind: 'pages', requestedAt: 'noon' }
const OWNED = ['owned', 'commit']
const refusedRecord = (id: string, code: string) => ({
  ...{ recordId: id, origin: `run:7 ${id}`, body: `{"id":"${id}"}` },
  reason: `the warehouse refused the record (SQLSTATE ${code})`,
})

test('a batch for an empty table needs no staging; any other has it before its transaction begins', async () => {
  const result = { changed: 2, deleted: 20, erased: 200, deadLetters: 1, problems: 2_000, conflicts: ['a'] }
  expect(await load('ab', 'straight', [unreadable])).toEqual(result)
  expect(steps.splice(0)).toEqual(['begin', ['ab', EMPTY], unreadable, ...OWNED])
  expect(await load('ab', 'merge', [unreadable])).toEqual(result)
  expect(steps).toEqual(['stage patients', 'begin', ['ab', PAGES], unreadable, ...OWNED])
})

test('a batch is merged as a whole where a record of it exists after all', async () => {
  faults = { empty: '23505' }
  await load('ab', 'straight', [unreadable])
  expect(steps).toEqual([
    ...['begin', ['ab', EMPTY], 'rollback'],
    ...['stage patients', 'begin', ['ab', PAGES], unreadable, ...OWNED],
  ])
})

test('halves are copied as the whole was; dead letters go with the first half, a refused record is stored by a merge, and the counts are added up', async () => {
  faults = { b: '22P05' }
  expect(await load('abcd', 'straight', [unreadable])).toEqual({
    ...{ changed: 3, deleted: 30, erased: 300, deadLetters: 2, problems: 3_000, conflicts: ['a', 'd'] },
  })
  expect(steps).toEqual([
    ...['begin', ['abcd', EMPTY], 'rollback', 'begin', ['ab', EMPTY], 'rollback'],
    ...['begin', ['a', EMPTY], unreadable, ...OWNED],
    ...['begin', ['b', EMPTY], 'rollback'],
    ...['stage patients', 'begin', ['', PAGES], refusedRecord('b', '22P05'), ...OWNED],
    ...['begin', ['cd', EMPTY], ...OWNED],
  ])
})

test('a refused record alone keeps the dead letters of its batch, before its own', async () => {
  faults = { a: '54000' }
  expect(await load('a', 'merge', [unreadable])).toMatchObject({ changed: 0, deadLetters: 2 })
  expect(steps.slice(-5)).toEqual([['', PAGES], unreadable, refusedRecord('a', '54000'), ...OWNED])
})

test.each(['40P01', '53100', '57014', '42501'])(
  'an error that no record causes (%s) ends the load at once, and so does a refusal without records',
  async (code) => {
    faults = { a: code }
    await expect(load('ab', 'merge')).rejects.toMatchObject({ code })
    expect(steps.splice(0)).toEqual(['stage patients', 'begin', ['ab', PAGES], 'rollback'])
    faults = { pages: '23514' }
    await expect(load('', 'merge', [unreadable])).rejects.toMatchObject({ code: '23514' })
    expect(steps).toEqual(['stage patients', 'begin', ['', PAGES], 'rollback'])
  },
)
