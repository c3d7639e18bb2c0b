/** A scan that ended early is continued: kept pages are not requested again, unless the list has changed. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Answer } from '../../../src/api/http/answer.ts'
import type { Getter, KeptPages, PageFacts } from '../../../src/api/paging/page.ts'
import { PageJudge } from '../../../src/api/paging/page-judge.ts'
import { scanPages } from '../../../src/api/paging/pages.ts'
import { queryText } from '../../../src/api/paths.ts'

const SIZE = 3

interface Read {
  readonly requested: readonly number[]
  readonly yielded: readonly number[]
  readonly facts: ReadonlyMap<number, PageFacts>
  readonly resumed: boolean | null
  readonly outcome: unknown
  readonly error: unknown
}

/** Reads a list of these ids; `by` is the parameter of its links. */
async function read(
  ids: readonly string[],
  {
    kept,
    concurrency = 1,
    by = 'page',
    fails,
  }: { kept?: KeptPages; concurrency?: number; by?: 'page' | 'offset' | 'cursor'; fails?: number } = {},
): Promise<Read> {
  const requested: number[] = []
  const getter: Getter = {
    concurrency,
    pageSize: undefined,
    async get(_path, options): Promise<Answer> {
      const at = Number(new URLSearchParams(queryText(options?.query)).get(by) ?? (by === 'offset' ? 0 : 1))
      const page = by === 'offset' ? at / SIZE + 1 : at
      requested.push(page)
      if (page === fails) throw new Error('no answer')
      const results = ids.slice((page - 1) * SIZE, page * SIZE).map((id) => ({ id }))
      const next = page * SIZE < ids.length ? `?${by}=${by === 'offset' ? page * SIZE : page + 1}` : null
      const times = { startedAt: 1, receivedAt: 2, serviceDate: null }
      const body = { count: ids.length, next, results }
      return { status: 200, headers: {}, body, invalidUtf8: false, bytes: 0, ...times }
    },
  }
  const scan = scanPages(getter, '/list', { resource: 'list', ...(kept === undefined ? {} : { kept }) })
  const facts = new Map<number, PageFacts>()
  const yielded: number[] = []
  let error: unknown = null
  try {
    for await (const page of scan) {
      yielded.push(page.number)
      facts.set(page.number, page.facts)
    }
  } catch (thrown) {
    error = thrown
  }
  return { requested, yielded, facts, resumed: scan.resumed, outcome: scan.outcome, error }
}

const listOf = (records: number) => Array.from({ length: records }, (_, at) => `r${at}`)
const keptOf = ({ facts }: Read, numbers: readonly number[]): KeptPages => ({
  first: facts.get(1)!,
  pages: new Map(numbers.flatMap((each) => (facts.has(each) ? [[each, facts.get(each)!]] : []))),
})

test('a list that has not changed ends as if it were read at once, and of the kept pages only the first and the last are requested again', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 7, max: 60 }),
      fc.uniqueArray(fc.integer({ min: 1, max: 20 }), { minLength: 1 }),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom('page' as const, 'offset' as const),
      async (records, numbers, concurrency, by) => {
        const whole = await read(listOf(records), { by })
        const kept = keptOf(whole, numbers)
        fc.pre(kept.pages.size > 0 && Math.max(...kept.pages.keys()) > 1)
        const rest = await read(listOf(records), { by, kept, concurrency })
        const last = Math.max(...kept.pages.keys())
        const wanted = whole.yielded.filter((page) => page === 1 || page === last || !kept.pages.has(page))
        expect({ ...rest, requested: [...rest.requested].sort((a, b) => a - b) }).toMatchObject({
          ...{ resumed: true, outcome: whole.outcome, error: null, requested: wanted },
        })
        expect([...rest.yielded].sort((a, b) => a - b)).toEqual(wanted)
        // The two pages that decide are read first.
        expect(rest.yielded.slice(0, 2)).toEqual([1, last])
      },
    ),
    { numRuns: 300 },
  )
})

test.each<[string, (ids: string[]) => string[]]>([
  ['a record was added at the beginning', (ids) => ['new', ...ids]],
  ['a record was added at the end', (ids) => [...ids, 'new']],
  ['a record of a kept page is gone', (ids) => ids.toSpliced(4, 1)],
  ['a record of the first page is another', (ids) => ids.with(1, 'new')],
  ['records moved across the place where the scan ended', (ids) => [...ids.toSpliced(4, 1), 'new']],
  ['the last kept page lists other records', (ids) => ids.with(10, 'new')],
  ['the list became shorter than the kept pages', (ids) => ids.slice(0, 6)],
  ['the list has one page', (ids) => ids.slice(0, 2)],
  ['the list is empty', () => []],
])('every page is requested again where %s', async (_, change) => {
  const kept = keptOf(await read(listOf(30)), [1, 2, 3, 4])
  const changed = change(listOf(30))
  const whole = await read(changed)
  const again = await read(changed, { kept, concurrency: 3 })
  expect(again).toMatchObject({ resumed: false, outcome: whole.outcome, error: null })
  expect([...again.yielded].sort((a, b) => a - b)).toEqual(whole.yielded)
  expect([...again.requested].sort((a, b) => a - b)).toEqual(whole.requested)
})

test('a list is read from its beginning, each page once, where only its first page is kept', async () => {
  const kept = keptOf(await read(listOf(30)), [1])
  const again = await read(listOf(30), { kept })
  expect(again).toMatchObject({ resumed: false, error: null })
  expect(again.requested).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
})

test('a list that is followed link by link is read from its beginning', async () => {
  const kept = keptOf(await read(listOf(30), { by: 'cursor' }), [1, 2, 3, 4])
  const again = await read(listOf(30), { by: 'cursor', kept })
  expect(again).toMatchObject({ resumed: false, error: null })
  expect(again.requested).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
})

test('kept pages are neither used nor given up if the service fails before it is known whether the list has changed', async () => {
  const kept = keptOf(await read(listOf(30)), [1, 2, 3, 4])
  const first = await read(listOf(30), { kept, fails: 1 })
  expect(first).toMatchObject({ resumed: null, requested: [1], error: { message: 'no answer' } })
  const last = await read(listOf(30), { kept, fails: 4, concurrency: 3 })
  expect(last).toMatchObject({ resumed: null, requested: [1, 4], error: { message: 'no answer' } })
})

test('a scan without kept pages does not count as continued', async () => {
  expect((await read(listOf(30))).resumed).toBeNull()
})

test('a list of more pages than a call can have arguments is continued', () => {
  const count = 200_000
  const facts = (number: number): PageFacts => ({
    ...{ kind: 'page', number, records: 1, count, next: '?page=2', endKnown: true },
    ...{ fingerprint: `page ${number}`, fits: true },
  })
  const pages = new Map(Array.from({ length: count - 1 }, (_, at) => [at + 1, facts(at + 1)]))
  const judge = new PageJudge('/list', undefined, undefined, { first: facts(1), pages })
  expect(judge.next()?.number).toBe(1)
  judge.arrived(facts(1))
  expect(judge.failure).toBeNull()
  expect(judge.next()?.number).toBe(count - 1)
  judge.arrived(facts(count - 1))
  expect(judge.next()?.number).toBe(count)
  expect([judge.resumed, judge.failure]).toEqual([true, null])
})

test('a kept page beyond those that the first page counts proves nothing: the list is read from its beginning', () => {
  const facts = (number: number): PageFacts => ({
    ...{ kind: 'page', number, records: 3, count: 6, next: `?page=${number + 1}`, endKnown: true },
    ...{ fingerprint: `page ${number}`, fits: true },
  })
  const pages = new Map([2, 3].map((number) => [number, facts(number)]))
  const judge = new PageJudge('/list', undefined, undefined, { first: facts(1), pages })
  expect(judge.next()?.number).toBe(1)
  judge.arrived(facts(1))
  expect([judge.next()?.number, judge.next(), judge.resumed]).toEqual([2, null, false])
})
