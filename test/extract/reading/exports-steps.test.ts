/** The steps of reading exports, without a warehouse or a service: their order, what is passed on, and what a failure ends. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { instantOf } from '../../../src/core/time.ts'
import { readExports, relist } from '../../../src/extract/reading/read-exports.ts'
import type { SliceOptions } from '../../../src/extract/slice-note.ts'
import type { Source } from '../../../src/extract/source.ts'
import { formExports } from '../../../src/streams/exports.ts'

const START = '2026-01-01T00:00:00.000000Z'
const steps: unknown[][] = []
const note = (...step: unknown[]) => void steps.push(step)
let stable = true
/** Ids of listed exports; those that are stored; those whose file cannot be read. */
let [ids, stored, failing] = [['a', 'b'], ['a', 'b'], [] as string[]]
let loaders: { count?: number; onRetry?: (code: string, attempt: number, teamId: number) => void } = {}

vi.mock('../../../src/extract/reading/read-list.ts', () => ({
  scanUntilStable: async (_source: unknown, _session: unknown, ...options: unknown[]) => {
    note('scan', ...options)
    const last = { stable, startedAt: START, seenIds: { ids: async () => ids, missing } }
    return {
      last: { ...last, reason: 'count_drifted', count: null },
      all: [last],
      conflicting: new Set(['c']),
    }
  },
}))
const missing = async () => ({ count: 0, ids: [] })
vi.mock('../../../src/extract/reading/read-export-file.ts', () => ({
  readFile: async (_source: unknown, reader: unknown, id: string, known: unknown, dry: boolean) => {
    note('file', reader, id, known, dry)
    if (failing.includes(id)) throw new Error(`no ${id}`)
  },
}))
vi.mock('../../../src/load/merge/loaders.ts', () => ({
  openLoaders(options: typeof loaders) {
    loaders = options
    let before: Promise<unknown> = Promise.resolve()
    return {
      // One after the other.
      run: (work: (reader: string) => Promise<unknown>) => {
        const done = before.then(() => work('a reader'))
        before = done.catch(() => {})
        return done
      },
      [Symbol.asyncDispose]: async () => note('close readers'),
    }
  },
}))
vi.mock('../../../src/load/exports/export-file.ts', () => ({
  storedExports: async (_db: unknown, teamId: number, all: readonly string[]) => {
    note('look up', teamId, [...all])
    return new Map(stored.map((id) => [id, `row of ${id}`]))
  },
}))
vi.mock('../../../src/load/exports/file-problems.ts', () => ({
  joinProblems: async (...of: unknown[]) => note('join problems', ...of),
  matchQuestions: async (...of: unknown[]) => note('match questions', ...of),
}))
vi.mock('../../../src/load/dead-letters.ts', () => ({
  resolveUnmet: async (...of: unknown[]) => note('resolve', ...of),
}))
vi.mock('../../../src/load/slice.ts', () => ({
  assertOwned: async () => {},
  settleSlice: async (_db: unknown, _taken: unknown, cursor: object) => note('settle', cursor),
}))
vi.mock('../../../src/extract/conflicts/settle-conflicts.ts', () => ({
  settleConflicts: async (_source: unknown, _session: unknown, which: ReadonlySet<string>) =>
    note('conflicts', [...which]),
}))
vi.mock('../../../src/extract/scan/batcher.ts', () => ({
  openBatcher: () => ({ add: async (gone: unknown) => note('delete', gone), finish: async () => [] }),
}))
vi.mock('../../../src/extract/scan/seen-ids.ts', () => ({ countLive: async () => 100 }))

const logged: unknown[] = []
beforeEach(() => {
  steps.length = 0
  logged.length = 0
  stable = true
  ;[ids, stored, failing] = [['a', 'b'], ['a', 'b'], []]
})

/** A warehouse that answers nothing, and only notes transactions. */
const db = {
  transaction: () => ({ execute: async () => note('note missed') }),
  getExecutor: () => ({
    transformQuery: (node: unknown) => node,
    compileQuery: () => ({ sql: '', parameters: [] }),
    executeQuery: async () => ({ rows: [] }),
  }),
}
const source = (over: object = {}) =>
  ({
    ...{ team: 'north', stream: formExports, url: 'a warehouse', timezone: 'UTC', clock: 'a clock' },
    ...{ taken: { teamId: 3, runId: '7', stream: 'exports' }, client: { concurrency: 4 } },
    logger: { warn: (...said: unknown[]) => void logged.push(said) },
    ...{ failedFetches: { inRow: 0, later: new Map([['b', 'why']]) }, tally: {}, ...over },
  }) as unknown as Source

async function read(over: Partial<SliceOptions> = {}, of: object = {}) {
  const options = { allowMassDelete: false, dry: false, migrated: true, window: {}, ...over } as SliceOptions
  return await readExports(source(of), { db } as never, options)
}
const file = (id: string, dry = false, known: string | undefined = `row of ${id}`) => [
  ...['file', 'a reader', id, known, dry],
]
const names = () => steps.map(([step]) => step)

describe('the steps of a run', () => {
  test('are the list, its conflicts, the files, deletes, dead letters, problems and questions, and the end', async () => {
    expect(await read()).toEqual({ text: null, attention: false })
    expect(names()).toEqual([
      ...[
        'scan',
        'conflicts',
        'look up',
        'file',
        'file',
        'close readers',
        'delete',
        'conflicts',
        'note missed',
      ],
      ...['resolve', 'join problems', 'match questions', 'settle'],
    ])
    expect(steps.slice(1, 5)).toEqual([
      ...[['conflicts', ['c']], ['look up', 3, ['a', 'b']], file('a'), file('b')],
    ])
    const place = { teamId: 3, stream: 'exports', runId: '7' }
    expect(steps.slice(-4)).toEqual([
      ['resolve', db, place, { except: ['b'] }],
      ['join problems', db, 3],
      ['match questions', db, 3],
      ['settle', { scanned_at: START, steady: true }],
    ])
  })

  test('where the list kept changing, without deletes, and no dead letter is resolved', async () => {
    stable = false
    expect((await read()).text).toContain('the list kept changing')
    expect(names().slice(5)).toEqual(['close readers', 'join problems', 'match questions', 'settle'])
    expect(steps.at(-1)).toEqual(['settle', { scanned_at: START, steady: false }])
  })

  test('of one that only compares end with the deletes, and none of these is noted', async () => {
    await read({ dry: true })
    expect(names()).toEqual([
      ...['scan', 'conflicts', 'look up', 'file', 'file', 'close readers', 'delete', 'conflicts'],
    ])
    expect(steps[3]).toEqual(file('a', true))
    steps.length = 0
    // Without tables there is nothing to compare with.
    await read({ dry: true, migrated: false })
    const unknown = ['a', 'b'].map((id) => ['file', 'a reader', id, undefined, true])
    expect(steps.slice(1)).toEqual([...unknown, ['close readers']])
  })
})

test('an entry that is not stored has no file, except in a comparison', async () => {
  stored = ['b']
  await read()
  expect(steps.filter(([step]) => step === 'file')).toEqual([file('b')])
  steps.length = 0
  await read({ dry: true })
  expect(steps.filter(([step]) => step === 'file').map(([, , id]) => id)).toEqual(['a', 'b'])
})

test('the first file that cannot be read ends the stream: no other is begun, and nothing is settled', async () => {
  ids = stored = ['a', 'b', 'c']
  failing = ['b', 'c']
  await expect(read()).rejects.toThrow('no b')
  expect(names().slice(3)).toEqual(['file', 'file', 'close readers'])
})

test.each([
  [1, 1],
  [2, 1],
  [3, 2],
  [8, 2],
])('of %i requests at once, files take %i', async (concurrency, count) => {
  await read({}, { client: { concurrency } })
  expect(loaders).toMatchObject({ url: 'a warehouse', clock: 'a clock', count })
})

test('a file that is read again after a failure is in the log, with its team and stream', async () => {
  await read()
  loaders.onRetry!('serialization', 2, 3)
  const fields = { team: 'north', stream: 'exports', code: 'serialization', attempt: 2 }
  expect(logged).toEqual([[fields, 'reading an export again after a failure']])
})

test('a list that is read once more is read under the signal and the count of the run, from the time of each request on', async () => {
  const sampled: unknown[] = []
  const asked: unknown[] = []
  const page = (id: string, startedAt: number, invalidUtf8: boolean) => ({
    ...{
      records: [{ id, name: `x${invalidUtf8 ? '\udce9' : ''}` }],
      startedAt,
      receivedAt: 9_000_000,
      invalidUtf8,
    },
  })
  const pages = [page('a', 1_000_000, false), page('b', 2_000_000, true)]
  const [meter, signal] = [{ requests: 0, throttled: 0 }, new AbortController().signal]
  const client = {
    pathOf: (path: string) => `path of ${path}`,
    async *pages(...of: unknown[]) {
      asked.push(of)
      yield* pages
    },
  }
  const serviceClock = { sample: (each: unknown) => void sampled.push(each), observedAt: instantOf }
  const found = await relist(source({ client, serviceClock, meter, signal }), ['b', 'a'], 'refetch')
  expect(asked).toEqual([[`path of ${formExports.list}`, { resource: 'exports', meter, signal }]])
  expect(sampled).toEqual(pages)
  expect(found.map(({ id, observedAt, content }) => [id, observedAt, content!.payload.name])).toEqual([
    ['a', instantOf(1_000_000), 'x'],
    ['b', instantOf(2_000_000), 'x\\xe9'],
  ])
})
