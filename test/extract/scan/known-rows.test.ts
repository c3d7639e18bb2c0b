/** The stored rows of known pages: which are read, when and together, and what replaces them. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Instant } from '../../../src/core/time.ts'
import { type NotedPage, openKnownPages } from '../../../src/extract/scan/known-pages.ts'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import { openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeAll(async () => {
  rig = await openRig()
})
afterAll(() => rig[Symbol.asyncDispose]())
beforeEach(() => rig.rows('truncate intake_raw.known_pages, intake_raw.records, intake_ops.erasures cascade'))

const key = (digit: string) => digit.repeat(32)
const page = (
  number: number,
  ids: readonly string[] = [`p${number}`],
  over: Partial<NotedPage> = {},
): NotedPage => ({
  ...{ page: number, ids, bytes: ids.map((_, at) => key(String(at + 1))).join('') },
  ...{ hashes: ids.map((_, at) => key('abcdef'[at]!)).join(''), updatedTo: null, ...over },
})

/** Loaders that count the queries. */
async function open({
  reader = 'r',
  recall = true,
  works = [] as string[],
  isFailing = (): boolean => false,
} = {}) {
  const source = await rig.source('patients')
  const loaders = {
    ...source.loaders,
    run: <Result>(work: Parameters<typeof source.loaders.run<Result>>[0]): Promise<Result> => {
      works.push('query')
      return isFailing() ? Promise.reject(new Error('no')) : source.loaders.run(work)
    },
  }
  return await openKnownPages({ ...source, loaders }, rig.session, { reader, recall })
}

async function store(pages: readonly NotedPage[], reader = 'r') {
  const known = await open({ reader })
  await known.store(pages)
  await known.settle(null)
}

const rows = () =>
  rig.rows(`select page, reader, ids, encode(bytes, 'hex') as bytes, encode(hashes, 'hex') as hashes, is_next,
    updated_to at time zone 'UTC' = '2026-02-01 00:00:00.000001' as dated from intake_raw.known_pages order by is_next, page`)

test('a row is read as it was stored, to the microsecond', async () => {
  const updatedTo = '2026-02-01T00:00:00.000001Z' as Instant
  const stored = [page(1, ['a', 'b'], { updatedTo }), page(2, [])]
  await store(stored)
  const known = await open()
  const places = new Map([
    [key('1'), 0],
    [key('2'), 1],
  ])
  expect(await known.load([1])).toEqual([{ ...stored[0]!, places }])
  expect(await known.load([2])).toEqual([{ ...stored[1]!, places: new Map() }])
  expect(await known.load([3])).toEqual([])
  expect(await known.load([])).toEqual([])
  expect([...known.firsts]).toEqual([
    [1, key('1')],
    [2, ''],
  ])
})

test('rows of another reader are not known, nor are any where nothing is to be recalled; they stay until others replace them', async () => {
  await store([page(1), page(2)], 'another')
  expect((await open()).firsts.size).toBe(0)
  expect((await open({ reader: 'another', recall: false })).firsts.size).toBe(0)
  const known = await open()
  await known.store([page(2, ['new'], { updatedTo: '2026-02-01T00:00:00.000001Z' as Instant })])
  expect((await rows()).map((row) => [row.page, row.reader, row.is_next])).toEqual([
    [1, 'another', false],
    [2, 'another', false],
    [2, 'r', true],
  ])
  // Nothing that was stored since is read before the end.
  expect(await known.load([2])).toEqual([])
  await known.settle(2)
  const old = {
    page: 1,
    reader: 'another',
    ids: 'p1',
    bytes: key('1'),
    hashes: key('a'),
    is_next: false,
    dated: null,
  }
  const replaced = { ...old, page: 2, reader: 'r', ids: 'new', dated: true }
  expect(await rows()).toEqual([old, replaced])
})

test('a page that is stored twice in a scan has everything of the later one', async () => {
  const known = await open()
  await known.store([page(1, ['old', 'older'])])
  const later = await open({ reader: 'later' })
  await later.store([page(1, ['a'], { updatedTo: '2026-02-01T00:00:00.000001Z' as Instant })])
  await later.store([page(1, ['a', 'b', 'c'], { updatedTo: '2026-02-01T00:00:00.000001Z' as Instant })])
  const bytes = `${key('1')}${key('2')}${key('3')}`
  const hashes = `${key('a')}${key('b')}${key('c')}`
  const rest = { page: 1, reader: 'later', ids: 'a\nb\nc', bytes, hashes, dated: true }
  expect((await rows()).at(-1)).toEqual({ ...rest, is_next: true })
  const latest = await open({ reader: 'latest' })
  await latest.store([page(1, ['a'])])
  await latest.store([page(1, ['a', 'b', 'c'], { updatedTo: '2026-02-01T00:00:00.000001Z' as Instant })])
  await latest.settle(null)
  expect(await rows()).toEqual([{ ...rest, reader: 'latest', is_next: false }])
})

test('what a scan stores is not read before its end', async () => {
  await store([page(1, ['old'])])
  const known = await open()
  await known.store([page(1, ['new'])])
  expect((await known.load([1])).map(({ ids }) => ids)).toEqual([['old']])
  expect((await known.load([2, 1])).map(({ ids }) => ids)).toEqual([['old']])
})

test('of a list that has become shorter the rows beyond its end are removed, and no other', async () => {
  await store([1, 2, 3, 4].map((at) => page(at)))
  const known = await open()
  await known.settle(3)
  expect((await rows()).map((row) => row.page)).toEqual([1, 2, 3])
  await known.settle(null)
  expect((await rows()).map((row) => row.page)).toEqual([1, 2, 3])
})

describe('rows are requested', () => {
  const numbers = Array.from({ length: 10 }, (_, at) => at + 1)

  test('four at once, two pages before they are needed, and each once; those of other pages when they are asked for', async () => {
    await store(numbers.map((at) => page(at)))
    const works: string[] = []
    const known = await open({ works })
    const queries: [number, number][] = []
    for (const number of numbers) {
      works.length = 0
      expect((await known.load([number])).map((row) => row.page)).toEqual([number])
      queries.push([number, works.length])
    }
    // Rows 1 to 4 with the first page, then 5 to 8 with the third, and 9 and 10 with the seventh.
    expect(queries.filter(([, count]) => count > 0)).toEqual([
      [1, 1],
      [3, 1],
      [7, 1],
    ])
    works.length = 0
    expect((await known.load([4, 9, 2])).map((row) => row.page).toSorted()).toEqual([2, 4, 9])
    expect(works.length).toBeLessThanOrEqual(3)
  })

  test('and one that fails is a failure of the page that needs it, and of no page before', async () => {
    await store(numbers.map((at) => page(at)))
    let isFailing = false
    const known = await open({ isFailing: () => isFailing })
    await known.load([1])
    await known.load([2])
    isFailing = true
    // Requests the rows of 5 to 8.
    expect(await known.load([3])).toHaveLength(1)
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
    expect(await known.load([4])).toHaveLength(1)
    await expect(known.load([5])).rejects.toThrow('no')
  })
})

describe('of the pages of a scan that was killed', () => {
  /** Some pages of a scan that never ended, the second with a record that is not stored. */
  async function kill() {
    await rig.hold('patients', [{ id: 'p1', first_name: 'A' }], '2026-01-01T00:00:00Z' as Instant)
    await rig.hold(
      'patients',
      [{ id: 'p2', first_name: 'A' }],
      '2026-01-01T00:00:00Z' as Instant,
      rig.otherId,
    )
    await rig.hold('forms', [{ id: 'p2', questions: [] }], '2026-01-01T00:00:00Z' as Instant)
    await store([page(2, ['before'])])
    const known = await open()
    await known.store([page(1), page(2)])
  }
  const kept = async () => (await rows()).map(({ page: number, ids }) => [number, ids])

  test('all are kept where nobody was erased, or only somebody of another team', async () => {
    await kill()
    const erasures = await hashesOf(rig.session.db, rig.otherId)
    await noteErased(rig.session.db, erasures, 'p2', [{ stream: 'patients', id: 'p2' }])
    await open()
    expect(await kept()).toEqual([
      [1, 'p1'],
      [2, 'p2'],
    ])
  })

  test('those with a record that is not stored are forgotten where somebody was erased, before they replace others', async () => {
    await kill()
    const erasures = await hashesOf(rig.session.db, rig.teamId)
    await noteErased(rig.session.db, erasures, 'x', [{ stream: 'patients', id: 'x' }])
    await open()
    expect(await kept()).toEqual([
      [1, 'p1'],
      [2, 'before'],
    ])
  })
})
