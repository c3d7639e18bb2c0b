/** The steps of reading one stream, without a warehouse or a service: their order, and what each is given. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { IntakeError } from '../../src/core/errors.ts'
import type { BackfillOptions, OpenTeam } from '../../src/extract/backfill-options.ts'
import { runStream, type StreamRun } from '../../src/extract/run-stream.ts'
import type { SliceNote } from '../../src/extract/slice-note.ts'
import type { Source } from '../../src/extract/source.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'

const steps: unknown[][] = []
const note = (...step: unknown[]) => void steps.push(step)
let source: Source
/** What reading does to its source, and its note. */
let reading: (source: Source) => SliceNote
let stored: unknown

function reads(how: string) {
  return async (given: Source, session: unknown, ...rest: unknown[]) => {
    source = given
    note(how, session, ...rest)
    return reading(given)
  }
}
vi.mock('../../src/extract/reading/read-list.ts', () => ({ readList: reads('list') }))
vi.mock('../../src/extract/reading/read-windows.ts', () => ({ readWindows: reads('windows') }))
vi.mock('../../src/extract/reading/read-exports.ts', () => ({ readExports: reads('exports') }))
vi.mock('../../src/extract/conflicts/round.ts', () => ({
  fetchDue: async (given: unknown) => note('fetch due', given === source),
}))
vi.mock('../../src/load/merge/load.ts', () => ({
  ...{ loadBatch: 'load', compareBatch: 'compare', countBatch: 'count' },
}))
vi.mock('../../src/load/slice.ts', async (original) => ({
  ...(await original<typeof import('../../src/load/slice.ts')>()),
  takeSlice: async (...of: unknown[]) => {
    note('take', ...of)
    return { ...TAKEN, cursor: stored }
  },
  cursorOf: async (...of: unknown[]) => {
    note('cursor', ...of)
    return stored
  },
}))
vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<typeof import('../../src/warehouse/connect.ts')>()),
  openSession: async (options: unknown) => {
    note('open', options)
    return { ...SESSION, [Symbol.asyncDispose]: async () => note('close') }
  },
}))

const SESSION = { db: 'the warehouse' }
const TAKEN = { teamId: 3, stream: 'patients', slice: '', epoch: '4', runId: '9', takenAt: 'then' }
const session = expect.objectContaining(SESSION)
const signals = [new AbortController(), new AbortController()]
const window = { lookbackDays: 1, sweepDays: 2, full: false, since: null }
let [logged, notes]: [unknown[], unknown[]] = [[], []]

beforeEach(() => {
  steps.length = 0
  ;[logged, notes] = [[], []]
  reading = () => ({ text: null, attention: false })
  stored = null
})

const logger = {
  warn: (...said: unknown[]) => void logged.push(['warn', ...said]),
  error: (...said: unknown[]) => void logged.push(['error', ...said]),
}
let present = 0
async function run(name: string, over: Partial<StreamRun> = {}, options: object = {}) {
  const team = {
    ...{ name: 'north', teamId: 3, client: { permittedRate: 5 }, serviceClock: 'its clock' },
    ...{ timezone: 'Asia/Tokyo', signal: signals[0]!.signal, giveUp: (why: unknown) => note('give up', why) },
  } as unknown as OpenTeam
  const own = {
    ...{ url: 'a warehouse', clock: { now: () => present }, logger, signal: signals[1]!.signal },
    ...{ dry: false, migrated: true, allowMassDelete: true, window },
    onProgress: (...of: unknown[]) => note('progress', ...of),
    ...options,
  } as unknown as BackfillOptions
  const progress = {
    watch: (...of: unknown[]) => note('watch', ...of.slice(0, 2)),
    note: (...of: unknown[]) => void notes.push(of),
  }
  return await runStream({
    ...{ options: own, team, stream: streamNamed(name)!, loaders: 'loaders', runId: '9', progress },
    ...over,
  } as unknown as StreamRun)
}
const OPTIONS = { allowMassDelete: true, dry: false, migrated: true, window }
const KEY = { teamId: 3, stream: 'patients', slice: '' }

describe('a stream', () => {
  test('is watched, then read by a session that compares whole tables; what is due is fetched after it', async () => {
    await run('patients')
    expect(steps).toEqual([
      ['watch', 3, 'patients'],
      [
        'open',
        {
          ...{ url: 'a warehouse', purpose: 'scan patients', worker: undefined },
          planner: ['enable_nestloop=off', 'jit=off'],
        },
      ],
      ['take', SESSION.db, KEY, '9'],
      ['list', session, OPTIONS],
      ['fetch due', true],
      ['close'],
    ])
    expect(source).toMatchObject({
      ...{ team: 'north', serviceClock: 'its clock', url: 'a warehouse', timezone: 'Asia/Tokyo' },
      ...{ stream: streamNamed('patients'), taken: TAKEN, loaders: 'loaders', load: 'load' },
      failedFetches: { inRow: 0, later: new Map() },
    })
    // That of the team, which gives up alone.
    expect(source.signal).toBe(signals[0]!.signal)
    source.onProgress({ fetched: 1, expected: 2 })
    expect(steps.at(-1)).toEqual(['progress', 'north', 'patients', { fetched: 1, expected: 2 }])
  })

  test('that a worker has claimed is not taken again, and its session carries the id of the worker', async () => {
    const taken = { ...TAKEN, cursor: null, epoch: '6' }
    await run('patients', { claimed: { taken: taken as never, worker: 'abcdef01' } })
    expect(steps.map(([name]) => name)).toEqual(['watch', 'open', 'list', 'fetch due', 'close'])
    expect(steps[1]![1]).toMatchObject({ worker: 'abcdef01' })
    expect(source.taken).toBe(taken)
  })

  test.each([
    [true, 'compare', [['cursor', SESSION.db, KEY]], 'c'],
    [false, 'count', [], null],
  ])('of a dry run is only looked at (tables: %s)', async (migrated, load, asked, cursor) => {
    stored = 'c'
    await run('patients', { runId: null }, { dry: true, migrated })
    expect(steps.slice(2, -1)).toEqual([...asked, ['list', session, { ...OPTIONS, dry: true, migrated }]])
    const taken = { ...KEY, epoch: '0', runId: '0', cursor, takenAt: '-infinity' }
    expect(source).toMatchObject({ load, taken })
  })

  test('with a date filter is read by windows, and exports by their files; without a GET by id nothing is due', async () => {
    const reading = streamNamed('responses')!.reading
    await run('responses')
    expect(steps[3]).toEqual(['windows', session, OPTIONS, reading])
    expect(steps[4]).toEqual(['fetch due', true])
    for (const [name, how] of [
      ['exports', 'exports'],
      ['webhook_deliveries', 'list'],
    ] as const) {
      steps.length = 0
      await run(name)
      expect(steps.slice(3)).toEqual([[how, session, OPTIONS], ['close']])
    }
  })
})

describe('the report', () => {
  test('has every figure, to the millisecond, and the notes of the checkpoint, the list, and what is fetched later, in order', async () => {
    stored = { swept_at: '2999-01-01T00:00:00Z' }
    present = 1_700_000_000_000_000
    reading = ({ meter, tally, failedFetches }) => {
      Object.assign(meter, { requests: 11, throttled: 12 })
      Object.assign(tally, { fetched: 5, changed: 2, unchanged: 4, deleted: 1, erased: 6, deadLetters: 7 })
      tally.problems = 8
      failedFetches.later.set('x', 'failed (500)').set('y', 'other')
      present += 1_234_567
      return { text: 'of the list', attention: false }
    }
    const text =
      'the stored checkpoint is in the future; everything was read; of the list; 2 could not be fetched and will be requested again later (failed (500))'
    const { status, ...report } = await run('patients')
    expect(status).toBe('needs_attention')
    expect(report).toEqual({
      ...{ requests: 11, throttled: 12, fetched: 5, changed: 2, unchanged: 3, deleted: 1, erased: 6 },
      ...{ deadLetters: 7, problems: 8, seconds: 1.235, note: text },
    })
    const place = { team: 'north', stream: 'patients' }
    expect(logged).toEqual([['warn', place, text]])
    expect(notes).toEqual([
      [place, 'began'],
      [place, 'needs_attention: 5 fetched, 2 changed, 1 deleted'],
    ])
  })

  test('counts records that were fetched by id as fetched, and none of them as unchanged', async () => {
    reading = ({ tally }) => {
      Object.assign(tally, { fetched: 3, changed: 5, unchanged: 2 })
      return { text: 'all is well', attention: false }
    }
    expect(await run('patients')).toMatchObject({
      ...{ status: 'succeeded', note: 'all is well', fetched: 5, changed: 5, unchanged: 0 },
    })
  })

  test.each([
    [{ status: 401 }, true],
    [{ status: 403 }, true],
    [{ status: 429 }, true],
    [{ gaveUp: true }, true],
    [{ gaveUp: false }, false],
    [{ status: 404 }, false],
    [{ status: 500 }, false],
  ])('of a failure with %j stops the team: %s', async (more, endsTeam) => {
    const error = new IntakeError('no', { code: 'refused', verdict: 'stop', hint: 'look there' })
    Object.assign(error, more)
    reading = ({ tally }) => {
      tally.fetched = 2
      throw error
    }
    expect(await run('patients')).toMatchObject({ status: 'failed', fetched: 2, note: 'no — look there' })
    const place = { team: 'north', stream: 'patients', code: 'refused' }
    expect(logged).toEqual([['error', place, 'no — look there']])
    expect(steps.slice(4)).toEqual([['close'], ...(endsTeam ? [['give up', error]] : [])])
  })
})
