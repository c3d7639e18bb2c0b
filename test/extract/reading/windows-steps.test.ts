/** The steps of reading a window, without a warehouse or a service: what is read, what is kept, and what the checkpoint becomes. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { readWindows } from '../../../src/extract/reading/read-windows.ts'
import type { WindowOptions } from '../../../src/extract/reading/window.ts'
import type { ScanReport } from '../../../src/extract/scan/scan.ts'
import type { SliceNote, SliceOptions } from '../../../src/extract/slice-note.ts'
import { emptyTally, type Source } from '../../../src/extract/source.ts'
import { responses } from '../../../src/streams/responses.ts'

const steps: unknown[][] = []
const note = (...step: unknown[]) => void steps.push(step)
let scan: Partial<ScanReport>
let waiting: string[]
/** The note of the whole list; what it is reported as by `cursorOf`. */
let listNote: SliceNote
let cursors: unknown[]

vi.mock('../../../src/extract/reading/read-list.ts', () => ({
  async scanUntilStable(source: Source, session: unknown, _: unknown, request: { satisfies: unknown }) {
    note('window', session, { ...request, satisfies: undefined })
    satisfies = request.satisfies as typeof satisfies
    for (const [at, name] of Object.keys(source.tally).entries())
      (source.tally as unknown as Record<string, number>)[name]! += at + 1
    const seenIds = { keepSummaries: async (...of: unknown[]) => note('keep summaries', ...of) }
    const last = { ...SCAN, seenIds, ...scan }
    return { last, all: [last, last], conflicting: new Set(['a', 'b']) }
  },
  async readList(...[, session, , request, cursorOf]: [unknown, unknown, unknown, object, CursorOf]) {
    note('list', session, request)
    for (const [stable, withheld] of [
      [true, false],
      [true, true],
      [false, false],
    ] as const)
      cursors.push(cursorOf({ ...SCAN, stable, newest: LATER, startedAt: START }, withheld))
    cursors.push(cursorOf({ ...SCAN, newest: null, startedAt: START }, false))
    return listNote
  },
}))
vi.mock('../../../src/extract/conflicts/settle-conflicts.ts', () => ({
  refetch: 'refetch',
  settleConflicts: async (_: unknown, session: unknown, ids: ReadonlySet<string>, fetch: unknown) =>
    note('conflicts', session, [...ids], fetch),
  requestFailedFetches: async (_: unknown, session: unknown) => note('request later', session),
}))
vi.mock('../../../src/load/dead-letters.ts', () => ({
  waitingIds: async (...of: unknown[]) => {
    note('waiting', ...of)
    return waiting
  },
  resolveUnmet: async (...of: unknown[]) => note('resolve', ...of),
}))
vi.mock('../../../src/load/slice.ts', () => ({
  settleSlice: async (...of: unknown[]) => note('settle', ...of),
}))

type CursorOf = (scan: object, withheld: boolean) => unknown
let satisfies: (payload: object) => boolean
const START = '2026-03-10T08:00:00.000000Z'
const NEWEST = '2026-03-07T23:30:00.000000Z'
const LATER = '2026-03-09T01:00:00.000000Z'
const SWEPT = '2026-03-05T00:00:00.000000Z'
const SCAN = {
  ...{ stable: true, reason: null, startedAt: START, distinct: 3, count: 3, complete: true, listed: 3 },
  ...{ conflicting: [], newest: LATER, stopped: false },
}
const NOW = Date.UTC(2026, 2, 10, 9) * 1_000
const SESSION = { db: 'the warehouse' }
const PLACE = { teamId: 3, stream: 'responses', runId: '7' }
const FILTER = { parameter: 'submitted_after', field: 'submitted_at' }
let logged: unknown[]

beforeEach(() => {
  steps.length = 0
  ;[logged, scan, waiting, cursors] = [[], {}, ['d', 'e'], []]
  listNote = { text: null, attention: false }
})

const CHECKPOINT: object = { newest: NEWEST, swept_at: SWEPT }
async function read(
  over: Omit<Partial<SliceOptions>, 'window'> & { window?: Partial<WindowOptions>; cursor?: unknown } = {},
) {
  const { window = {}, cursor = CHECKPOINT, ...more } = over
  const taken = { teamId: 3, stream: 'responses', runId: '7', cursor }
  const later = new Map([
    ['x', 'why'],
    ['y', 'why'],
  ])
  const source = {
    ...{ team: 'north', stream: responses, taken, tally: emptyTally(), failedFetches: { inRow: 0, later } },
    logger: { warn: (...said: unknown[]) => void logged.push(said) },
    clock: { now: () => NOW },
  } as unknown as Source
  const options = { allowMassDelete: false, dry: false, migrated: true, ...more }
  const usual = { lookbackDays: 1, sweepDays: 7, full: false, since: null }
  const found = await readWindows(
    source,
    SESSION as never,
    { ...options, window: { ...usual, ...window } } as SliceOptions,
    FILTER,
  )
  return { note: found, tally: source.tally, taken }
}
const names = () => steps.map(([name]) => name)
const NOTHING = { text: null, attention: false }
const windowFrom = (after: string) => [
  ...['window', SESSION],
  { query: { submitted_after: after }, dated: 'submitted_at', satisfies: undefined },
]
const LIST = ['list', SESSION, { dated: 'submitted_at' }]

describe('a window', () => {
  test('with a lookback of one day begins three days before the checkpoint; failed fetches are repeated, and the cursor moves last', async () => {
    const { note, taken } = await read()
    expect(note).toEqual(NOTHING)
    expect(steps).toEqual([
      windowFrom('2026-03-04'),
      ['conflicts', SESSION, ['a', 'b'], 'refetch'],
      ['waiting', SESSION.db, PLACE, 100],
      ['conflicts', SESSION, ['d', 'e'], 'refetch'],
      ['resolve', SESSION.db, PLACE, { ids: ['d', 'e'], except: ['x', 'y'] }],
      ['request later', SESSION],
      ['keep summaries', { teamId: 3, stream: 'responses' }],
      [...['settle', SESSION.db, taken], { scanned_at: START, steady: true, newest: LATER, swept_at: SWEPT }],
    ])
    expect(
      ['2026-03-02T23:59:59Z', '2026-03-03T00:00:00Z', '2026-03-20', null, undefined, 'soon'].map((date) =>
        satisfies({ submitted_at: date, updated_at: '2026-03-09T00:00:00Z' }),
      ),
    ).toEqual([false, true, true, false, false, false])
  })

  test('in a dry run stores nothing', async () => {
    await read({ dry: true })
    expect(names()).toEqual(['window', 'conflicts', 'waiting', 'conflicts'])
  })

  const left = { scanned_at: START, newest: NEWEST, swept_at: SWEPT }
  test.each<[string, Partial<ScanReport>, object]>([
    [
      'earlier',
      { newest: '2026-03-07T00:00:00.000000Z' as never, complete: false },
      { ...left, steady: true },
    ],
    ['none', { newest: null, complete: false }, { ...left, steady: true }],
    ['of a list that kept changing', { stable: false, reason: 'loop' }, { ...left, steady: false }],
  ])('whose newest date is %s leaves that of the checkpoint', async (_, over, cursor) => {
    scan = over
    await read()
    expect(steps.at(-1)!.at(-1)).toEqual(cursor)
  })

  test('that kept changing says so; one that begins after the checkpoint does not move it', async () => {
    scan = { stable: false, reason: 'count_drifted' }
    const { note } = await read({ window: { since: '2026-03-09T12:00:00.000000Z' as never } })
    expect(note.text).toBe(
      'the list kept changing while it was read (count_drifted); deletes are looked for next time',
    )
    expect(steps[0]).toEqual(windowFrom('2026-03-07'))
    expect(steps.at(-1)!.at(-1)).toMatchObject({ newest: NEWEST, steady: false })
    scan = {}
    await read({ window: { since: '2026-03-09T12:00:00.000000Z' as never } })
    expect(steps.at(-1)!.at(-1)).toMatchObject({ newest: NEWEST, steady: true })
  })
})

describe('everything is read instead of a window', () => {
  test.each<[string, Partial<ScanReport>]>([
    ['the service does not keep to the date filter', { stopped: true, distinct: 0 }],
    ['the service lists nothing for the date filter', { distinct: 0, newest: null }],
    [
      'the newest record known is not among what the service lists for the date filter',
      { newest: '2026-03-07T23:29:59.999999Z' as never },
    ],
    ['the newest record known is not among what the service lists for the date filter', { newest: null }],
  ])('if %s (%#); the counts start again, except those of changes', async (why, over) => {
    scan = over
    listNote = { text: 'too many are missing', attention: true }
    const { note, tally } = await read()
    expect(steps).toEqual([windowFrom('2026-03-04'), LIST])
    expect(note).toEqual({ text: `${why}; everything was read; too many are missing`, attention: true })
    expect(logged).toEqual([[{ team: 'north', stream: 'responses' }, `${why}; reading everything`]])
    expect(tally).toEqual({
      ...{ fetched: 0, changed: 2, unchanged: 0, deleted: 4, erased: 0, deadLetters: 0, problems: 7 },
    })
    expect((await read({ dry: true })).tally).toEqual(emptyTally())
  })

  test.each([
    ['there is no checkpoint', null, null],
    ['the last time was a week ago', { newest: NEWEST, swept_at: '2026-03-03T09:00:00.000000Z' }, null],
    [
      'the checkpoint cannot be read',
      { newest: 'soon' },
      'the stored checkpoint cannot be read; everything was read',
    ],
  ])('where %s', async (_, cursor, text) => {
    expect((await read({ cursor })).note).toEqual({ text, attention: false })
    expect([steps, logged]).toEqual([[LIST], []])
  })

  test('and the checkpoint takes its newest date if the list was stable, even if deletes are withheld', async () => {
    await read({ window: { full: true } })
    expect(cursors).toEqual([
      { newest: LATER, swept_at: START },
      { newest: LATER, swept_at: null },
      { newest: NEWEST, swept_at: SWEPT },
      // No record has a date any more.
      { newest: null, swept_at: START },
    ])
  })
})

test('with a checkpoint that cannot be read, a window from a given date is still read, and the next run reads everything', async () => {
  const { note } = await read({ cursor: 'x', window: { since: '2026-03-09T12:00:00.000000Z' as never } })
  expect(note).toEqual({
    text: 'the stored checkpoint cannot be read; the records from --since on were read, and the next run reads everything',
    attention: false,
  })
  expect(steps.at(-1)!.at(-1)).toEqual({ scanned_at: START, steady: true, newest: null, swept_at: null })
})
