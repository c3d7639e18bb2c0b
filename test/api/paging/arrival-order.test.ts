/** A scan has the same result in any order of arrival of its pages, whatever is wrong with them. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ApiError, ShapeError } from '../../../src/api/errors.ts'
import type { Answer } from '../../../src/api/http/answer.ts'
import { failureOfStatus } from '../../../src/api/http/failures.ts'
import type { Getter } from '../../../src/api/paging/page.ts'
import { scanPages } from '../../../src/api/paging/pages.ts'
import { queryText } from '../../../src/api/paths.ts'

const SIZE = 3

type Flaw =
  | { readonly kind: 'count'; readonly by: number }
  | { readonly kind: 'short' | 'empty' | 'ends' | 'goes_on' | 'misfit' | 'no_list' }
  | { readonly kind: 'status'; readonly status: number }
  | { readonly kind: 'like'; readonly page: number }

const flaw: fc.Arbitrary<Flaw> = fc.oneof(
  fc.record({ kind: fc.constant('count' as const), by: fc.constantFrom(-3, -1, 1, 3) }),
  fc.record({ kind: fc.constantFrom('short', 'empty', 'ends', 'goes_on', 'misfit', 'no_list') }),
  fc.record({ kind: fc.constant('status' as const), status: fc.constantFrom(400, 403, 404, 500) }),
  fc.record({ kind: fc.constant('like' as const), page: fc.integer({ min: 1, max: 12 }) }),
)

const list = fc.record({
  count: fc.integer({ min: SIZE, max: SIZE * 12 }),
  /** By page; a page may have several. */
  flaws: fc.array(fc.tuple(fc.integer({ min: 2, max: 12 }), flaw), { maxLength: 4 }),
})

type List = typeof list extends fc.Arbitrary<infer Drawn> ? Drawn : never

const recordsOf = (count: number, page: number) =>
  Array.from({ length: Math.max(0, Math.min(SIZE, count - (page - 1) * SIZE)) }, (_, at) => ({
    id: `r${(page - 1) * SIZE + at}`,
    fits: true,
  }))

/** The answer of the service for a page: the same each time. */
function answerOf({ count, flaws }: List, page: number): unknown {
  const at = (number: number) => flaws.filter(([place]) => place === number).map(([, each]) => each)
  let reported = count
  let results = recordsOf(count, page)
  let next: string | null = page * SIZE < count ? `?page=${page + 1}` : null
  for (const each of at(page)) {
    if (each.kind === 'status')
      throw new ApiError('GET', '/list', failureOfStatus(each.status, false), 1, true)
    if (each.kind === 'no_list') return { detail: 'none' }
    if (each.kind === 'count') reported += each.by
    if (each.kind === 'short') results = results.slice(1)
    if (each.kind === 'empty') results = []
    if (each.kind === 'ends') next = null
    if (each.kind === 'goes_on') next = `?page=${page + 1}`
    if (each.kind === 'misfit') results = results.map((record) => ({ ...record, fits: false }))
    if (each.kind === 'like') results = recordsOf(count, each.page)
  }
  return { count: reported, next, results }
}

/** The result of reading the list, where `deliver` releases each answer. */
async function ending(
  of: List,
  concurrency: number,
  deliver: (page: number, answer: Promise<unknown>) => Promise<unknown> = (_, answer) => answer,
) {
  const getter: Getter = {
    concurrency,
    pageSize: undefined,
    async get(_path, options): Promise<Answer> {
      const page = Number(new URLSearchParams(queryText(options?.query)).get('page') ?? 1)
      const answer = (async () => answerOf(of, page))()
      answer.catch(() => {})
      const body = await deliver(page, answer)
      const times = { startedAt: 1, receivedAt: 2, serviceDate: null }
      return { status: 200, headers: {}, body, invalidUtf8: false, bytes: 0, ...times }
    },
  }
  const scan = scanPages(getter, '/list', {
    resource: 'list',
    fits: (record) => (record as { fits: boolean }).fits,
  })
  try {
    for await (const _page of scan);
    return { outcome: scan.outcome }
  } catch (error) {
    expect(error instanceof ApiError || error instanceof ShapeError).toBe(true)
    return { error: (error as Error).message }
  }
}

test('in any order of arrival, and with any concurrency, a list gives one result or one error', async () => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(list, fc.integer({ min: 2, max: 8 }), fc.scheduler(), async (of, width, scheduler) => {
      const one = await ending(of, 1)
      const deliver = (page: number, answer: Promise<unknown>) =>
        scheduler.schedule(answer, `page ${page}`) as Promise<unknown>
      const many = await scheduler.waitFor(ending(of, width, deliver))
      expect(many).toEqual(one)
      const kind = one.error ?? `${one.outcome!.complete} ${one.outcome!.reason}`
      seen.set(kind, (seen.get(kind) ?? 0) + 1)
    }),
    { numRuns: 2_000 },
  )
  // Each of the results was drawn, or nothing was compared.
  for (const verdict of [
    'true undefined',
    'false filter_ignored',
    'false rows_vanished',
    'true count_drifted',
    'true short_page',
    'GET /list: the service gave the same page twice',
    'GET /list: the answer contains no list',
    'GET /list: the service failed (500)',
    'GET /list: the service refused the credentials (403)',
  ])
    expect(seen.get(verdict), verdict).toBeGreaterThan(0)
})
