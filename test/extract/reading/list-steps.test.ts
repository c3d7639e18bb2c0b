/** The steps of reading a list, without a warehouse or a service: their order, and what each is given. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { readList } from '../../../src/extract/reading/read-list.ts'
import type { ScanReport, ScanRequest } from '../../../src/extract/scan/scan.ts'
import type { SliceOptions } from '../../../src/extract/slice-note.ts'
import { emptyTally, type Source } from '../../../src/extract/source.ts'
import { patients } from '../../../src/streams/patients.ts'
import { webhookDeliveries } from '../../../src/streams/webhook-deliveries.ts'

const steps: unknown[][] = []
const note = (...step: unknown[]) => void steps.push(step)
const START = '2026-01-01T00:00:00.000000Z'

/** What the scans report, one after another; how much each counts. */
let scans: Partial<ScanReport>[]
let deletes: object
let untouched: boolean

vi.mock('../../../src/extract/scan/scan.ts', () => ({
  scanStream: async (source: Source, ...rest: unknown[]) => {
    note('scan', ...rest)
    for (const [at, name] of Object.keys(source.tally).entries())
      (source.tally as unknown as Record<string, number>)[name]! += at + 1
    const seenIds = { keepSummaries: async (...of: unknown[]) => note('keep summaries', ...of) }
    return { ...SCAN, seenIds, ...scans.shift() }
  },
}))
vi.mock('../../../src/extract/scan/deletes.ts', () => ({
  prove: 'prove',
  proveDeletes: async (_: unknown, session: unknown, scan: ScanReport, allow: boolean) => {
    note('deletes', session, scan.startedAt, allow)
    return deletes
  },
}))
vi.mock('../../../src/extract/conflicts/settle-conflicts.ts', () => ({
  refetch: 'refetch',
  settleConflicts: async (_: unknown, session: unknown, ids: ReadonlySet<string>, fetch: unknown) =>
    note('conflicts', session, [...ids], fetch),
  requestFailedFetches: async (_: unknown, session: unknown) => note('request later', session),
}))
vi.mock('../../../src/load/merge/load.ts', () => ({
  isUntouched: async (...of: unknown[]) => {
    note('untouched?', ...of)
    return untouched
  },
}))
vi.mock('../../../src/load/dead-letters.ts', () => ({
  resolveUnmet: async (...of: unknown[]) => note('resolve', ...of),
}))
vi.mock('../../../src/load/slice.ts', () => ({
  settleSlice: async (...of: unknown[]) => note('settle', ...of),
}))

const SCAN = {
  ...{ stable: true, reason: null, startedAt: START, distinct: 3, count: 3, complete: true, listed: 3 },
  ...{ conflicting: [], newest: null, stopped: false },
}
const SESSION = { db: 'the warehouse' }
const TAKEN = { teamId: 3, stream: 'patients', runId: '7' }
const PLACE = { teamId: 3, stream: 'patients', runId: '7' }
let logged: unknown[]

beforeEach(() => {
  steps.length = 0
  logged = []
  scans = []
  deletes = { kind: 'done', conflicting: [] }
  untouched = false
})

async function read(
  over: Partial<SliceOptions> & { full?: boolean; request?: ScanRequest; stream?: object } = {},
  ...cursorOf: [] | [(scan: ScanReport, deletesWithheld: boolean) => object]
) {
  const { full = false, request, stream = patients, ...more } = over
  const later = new Map([
    ['x', 'why'],
    ['y', 'why'],
  ])
  const source = {
    ...{ team: 'north', stream, taken: TAKEN, tally: emptyTally(), failedFetches: { inRow: 0, later } },
    logger: { info: (...said: unknown[]) => void logged.push(said) },
  } as unknown as Source
  const options = { allowMassDelete: false, dry: false, migrated: true, window: { full }, ...more }
  const found = await readList(
    source,
    SESSION as never,
    options as unknown as SliceOptions,
    request,
    ...cursorOf,
  )
  return { note: found, tally: source.tally }
}
const names = () => steps.map(([name]) => name)
const requests = () => steps.filter(([name]) => name === 'scan').map(([, , mode, request]) => [mode, request])
const USUAL = { everySummary: false, known: true, progress: 'continue' }

describe('a whole list', () => {
  test('is scanned, its deletes proved and its dead letters resolved, then conflicts settled, and the cursor last', async () => {
    scans = [{ conflicting: ['a', 'b'] }]
    deletes = { kind: 'done', conflicting: ['c', 'd'] }
    const seen: unknown[] = []
    const cursorOf = (scan: ScanReport, withheld: boolean) => {
      seen.push(scan.conflicting, withheld)
      return { newest: 'then' }
    }
    expect((await read({ allowMassDelete: true }, cursorOf)).note).toEqual({ text: null, attention: false })
    expect(steps).toEqual([
      ['untouched?', SESSION, 3, patients],
      ['scan', SESSION, 'skip-unchanged', USUAL],
      ['deletes', SESSION, START, true],
      ['resolve', SESSION.db, PLACE, { except: ['x', 'y'] }],
      ['conflicts', SESSION, ['a', 'b'], 'refetch'],
      ['conflicts', SESSION, ['c', 'd'], 'prove'],
      ['request later', SESSION],
      ['keep summaries', PLACE],
      ['settle', SESSION.db, TAKEN, { scanned_at: START, steady: true, newest: 'then' }],
    ])
    expect(seen).toEqual([['a', 'b'], false])
  })

  test('whose deletes are withheld says so to a person and to the cursor', async () => {
    deletes = { kind: 'withheld', missing: 60, allowed: 50 }
    const { note } = await read({}, (_, withheld) => ({ withheld }))
    expect(note.attention).toBe(true)
    expect(note.text).toMatch(/^60 patients are missing from a complete list, more than the 50 that a run/)
    expect(steps.at(-1)!.at(-1)).toEqual({ scanned_at: START, steady: true, withheld: true })
    expect(steps.filter(([name]) => name === 'conflicts').map(([, , ids]) => ids)).toEqual([[], []])
  })

  test('in a dry run settles nothing and stores nothing: no progress, no known entries, no requests for later', async () => {
    scans = [{ conflicting: ['a'] }]
    await read({ dry: true })
    expect(names()).toEqual(['untouched?', 'scan', 'deletes', 'conflicts', 'conflicts'])
    expect(requests()).toEqual([['skip-unchanged', { everySummary: false, known: false }]])
  })

  test('before the tables exist is read without comparing, with every summary, and nothing else happens', async () => {
    scans = [{ stable: false, reason: 'count_drifted' }, { conflicting: ['a'] }]
    await read({ dry: true, migrated: false })
    expect(names()).toEqual(['scan', 'scan'])
    expect(requests()).toEqual(Array(2).fill(['straight', { everySummary: true, known: false }]))
  })

  test('with no stored record is read without comparing and from the start; a full run reads every summary', async () => {
    untouched = true
    await read({ full: true })
    expect(requests()).toEqual([['straight', { everySummary: true, known: true, progress: 'begin' }]])
  })

  test('of a log proves no deletes and settles no conflicts, as nothing can be fetched by id', async () => {
    scans = [{ conflicting: ['a'] }]
    await read({ stream: webhookDeliveries })
    expect(names()).toEqual([
      ...['untouched?', 'scan', 'resolve', 'request later', 'keep summaries', 'settle'],
    ])
  })
})

describe('a list that keeps changing', () => {
  const changing = (reason: string, ...conflicting: string[]) => {
    return { stable: false, reason, conflicting } as Partial<ScanReport>
  }

  test('is read three times: conflicts of all are settled, no deletes, and each reading is logged with its own reason', async () => {
    scans = [
      changing('count_drifted', 'a'),
      changing('rows_repeated', 'b'),
      { ...changing('not complete', 'c'), startedAt: '2026-02-02T00:00:00.000000Z' as never },
    ]
    const { note, tally } = await read({ request: { dated: 'updated_at' } })
    const text = 'the list kept changing while it was read (not complete); deletes are looked for next time'
    expect(note).toEqual({ text, attention: false })
    expect(requests()).toEqual(
      ['continue', 'begin', 'begin'].map((progress) => [
        'skip-unchanged',
        { ...USUAL, progress, dated: 'updated_at' },
      ]),
    )
    const said = (reason: string, scan: number) => [
      { team: 'north', stream: 'patients', reason, scan },
      'the list changed while it was read; reading it again',
    ]
    expect(logged).toEqual([said('count_drifted', 1), said('rows_repeated', 2)])
    expect(steps.slice(4)).toEqual([
      ['conflicts', SESSION, ['a', 'b', 'c'], 'refetch'],
      ['conflicts', SESSION, [], 'prove'],
      ['request later', SESSION],
      ['keep summaries', PLACE],
      ['settle', SESSION.db, TAKEN, { scanned_at: '2026-02-02T00:00:00.000000Z', steady: false }],
    ])
    // Changes and deletes of each scan are stored; the other figures are those of the last.
    expect(tally).toEqual({
      ...{ fetched: 1, changed: 6, unchanged: 3, deleted: 12, erased: 5, deadLetters: 6, problems: 21 },
    })
  })

  test('counts only the last reading in a dry run', async () => {
    scans = [changing('count_drifted'), changing('count_drifted'), {}]
    const { tally } = await read({ dry: true })
    expect(Object.values(tally)).toEqual([1, 2, 3, 4, 5, 6, 7])
  })

  test('is read without comparing only the first time', async () => {
    untouched = true
    scans = [changing('count_drifted'), {}]
    await read()
    expect(requests().map(([mode]) => mode)).toEqual(['straight', 'skip-unchanged'])
  })

  test('of a log says how many entries the service counts', async () => {
    scans = Array.from({ length: 3 }, (_, at) => ({ ...changing('count_mismatch'), count: at + 7 }))
    const { note } = await read({ stream: webhookDeliveries })
    expect(note.text).toBe(
      'not all entries of the log were listed, of 9 that the service counts (count_mismatch); it is read again next time',
    )
  })

  test('is not read again if the service ignores a filter', async () => {
    scans = [{ ...changing('filter_ignored'), stopped: true }]
    await read()
    expect([requests().length, logged]).toEqual([1, []])
  })
})
