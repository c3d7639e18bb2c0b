import { getEventListeners } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Answer, RequestOptions } from '../../../src/api/http/answer.ts'
import { type Page, type PagesOptions, type Scan, scanPages } from '../../../src/api/paging/pages.ts'
import { parseText } from '../../../src/core/json.ts'
import {
  clientOf,
  errorOf,
  type Handler,
  json,
  numberedPage,
  SECRET,
  startService,
} from '../support/service.ts'

interface Taken {
  readonly ids: unknown[]
  readonly outcome: Scan['outcome']
  readonly urls: string[]
  readonly numbers: number[]
}

async function scanAll(
  handler: Handler,
  options: Partial<PagesOptions> & { teamPageSize?: number } = {},
): Promise<Taken> {
  await using service = await startService(handler)
  const { teamPageSize, ...call } = options
  await using heard = clientOf(service.url, teamPageSize === undefined ? {} : { pageSize: teamPageSize })
  const scan = heard.client.pages('/v2/patients', { resource: 'patients', ...call })
  const pages: { number: number; records: readonly unknown[] }[] = []
  for await (const page of scan) pages.push(page)
  pages.sort((a, b) => a.number - b.number)
  return {
    ids: pages.flatMap(({ records }) => records.map((record) => (record as { id: unknown }).id)),
    outcome: scan.outcome,
    urls: service.received.map(({ url }) => url),
    numbers: pages.map(({ number }) => number),
  }
}

const ids = (total: number) => Array.from({ length: total }, (_, i) => `r${i}`)
const rows = (from: number, to: number) =>
  ids(to)
    .slice(from)
    .map((id) => ({ id }))
const pageOf = (url: string, name = 'page') => Number(new URL(url, 'http://x').searchParams.get(name) ?? 1)
const WHOLE = { complete: true, stable: true }

describe('each envelope is read as the same list', () => {
  test.each([
    ['bare array', rows(0, 3)],
    ['results without count', { results: rows(0, 3), next: null }],
    ['results and count', { count: 3, next: null, previous: null, results: rows(0, 3) }],
    ['data', { data: rows(0, 3) }],
    ['items', { items: rows(0, 3) }],
    ['the resource’s own name', { patients: rows(0, 3) }],
    ['the only list there is', { people: rows(0, 3), total: 3 }],
  ])('%s', async (_name, body) => {
    const taken = await scanAll((_, response) => json(response, body))
    expect(taken.ids).toEqual(ids(3))
    expect(taken.outcome).toMatchObject({ ...WHOLE, pages: 1, records: 3 })
    expect(taken.urls).toEqual(['/v2/patients'])
  })

  test.each([
    ['an object without a list', { detail: 'x' }],
    ['a string', 'x'],
    ['nothing', null],
    ['two lists', { a: [], b: [] }],
  ])('%s is an error, not an empty list', async (_name, body) => {
    const error = await errorOf(scanAll((_, response) => json(response, body)))
    expect(error).toMatchObject({ code: 'list_unreadable', verdict: 'stop' })
  })

  test.each([[[]], [{ count: 0, next: null, results: [] }]])(
    'an empty list is complete: %j',
    async (body) => {
      expect((await scanAll((_, response) => json(response, body))).outcome).toMatchObject({
        ...WHOLE,
        records: 0,
      })
    },
  )
})

describe('only the query of next is followed', () => {
  test.each([
    ['another origin', (query: string) => `https://elsewhere.invalid/v9/other?${query}`],
    ['http behind a proxy', (query: string) => `http://127.0.0.1/v2/patients?${query}`],
    ['relative', (query: string) => `/v2/patients?${query}`],
    ['query alone', (query: string) => `?${query}`],
    ['with a fragment', (query: string) => `http://x/y?${query}#top`],
    ['with credentials', (query: string) => `http://user:word@127.0.0.1:1/y?${query}`],
  ])('%s', async (_name, link) => {
    const taken = await scanAll(({ url }, response) => {
      const page = pageOf(url)
      json(response, {
        next: page < 3 ? link(`page=${page + 1}`) : null,
        results: rows((page - 1) * 2, page * 2),
      })
    })
    expect(taken.ids).toEqual(ids(6))
    expect(taken.urls).toEqual(['/v2/patients', '/v2/patients?page=2', '/v2/patients?page=3'])
  })

  test('the other server gets no request, and the credentials stay', async () => {
    await using other = await startService((_, response) => json(response, []))
    const taken = await scanAll(({ url }, response) => json(response, numberedPage(url, 7, 3, other.url)))
    expect(taken.ids).toEqual(ids(7))
    expect(other.received).toEqual([])
  })

  test('a filter that the link omits is sent as well', async () => {
    const taken = await scanAll(
      ({ url }, response) =>
        json(response, {
          next: pageOf(url) === 1 ? '?page=2' : null,
          results: rows(pageOf(url), pageOf(url) + 1),
        }),
      { query: { patient: 'p 1' } },
    )
    expect(taken.urls).toEqual(['/v2/patients?patient=p+1', '/v2/patients?page=2&patient=p+1'])
  })

  test('a cursor is sent back unchanged, one page after the other', async () => {
    const cursor = 'bz0x%2BcD0yMDI2=='
    const taken = await scanAll(({ url }, response) =>
      json(
        response,
        url.includes('?')
          ? { next: null, results: rows(2, 4) }
          : { next: `http://x/?cursor=${cursor}`, results: rows(0, 2) },
      ),
    )
    expect(taken.urls[1]).toBe(`/v2/patients?cursor=${cursor}`)
    expect(taken.outcome).toMatchObject(WHOLE)
  })

  test('a Link header', async () => {
    const taken = await scanAll(({ url }, response) => {
      const page = pageOf(url)
      const first = '<http://x/y?page=1>; rel=first'
      const next = `<http://x/y?page=${page + 1}&per=2>; rel="next"`
      // One line, or two.
      const link = page === 1 ? `${next}, ${first}` : page === 2 ? [first, next] : first
      json(response, rows((page - 1) * 2, page * 2), 200, { link })
    })
    expect(taken.ids).toEqual(ids(6))
    expect(taken.outcome).toMatchObject(WHOLE)
  })

  test('a next with another position of the same query is a repeat', async () => {
    const error = await errorOf(
      scanAll(({ url }, response) =>
        json(response, { next: '/elsewhere?page=2', results: rows(pageOf(url), pageOf(url) + 1) }),
      ),
    )
    expect(error).toMatchObject({ code: 'page_repeated', verdict: 'stop' })
    expect(error.message).toBe('GET /v2/patients: the service gave the same next page twice')
  })
})

describe('with a known count, pages are fetched concurrently', () => {
  test('by page number', async () => {
    let under = 0
    let most = 0
    const taken = await scanAll(async ({ url }, response) => {
      most = Math.max(most, ++under)
      await delay(20)
      under -= 1
      json(response, numberedPage(url, 23, 2))
    })
    expect(taken.ids).toEqual(ids(23))
    expect(taken.numbers).toEqual(Array.from({ length: 12 }, (_, i) => i + 1))
    expect(taken.outcome).toEqual({ ...WHOLE, count: 23, pages: 12, records: 23 })
    expect(most).toBe(2) // of 4: so few until the limit is better known
  })

  test('by limit and offset', async () => {
    const taken = await scanAll(({ url }, response) => {
      const offset = Number(new URL(url, 'http://x').searchParams.get('offset') ?? 0)
      const next = offset + 3 < 10 ? `http://x/?limit=3&offset=${offset + 3}` : null
      json(response, { count: 10, next, results: rows(offset, Math.min(10, offset + 3)) })
    })
    expect(taken.ids).toEqual(ids(10))
    expect(taken.outcome).toMatchObject({ ...WHOLE, pages: 4 })
  })

  test.each([
    ['capped', 3],
    ['ignored', 25],
  ])('a page_size that is %s is detected from the received pages', async (_name, size) => {
    const taken = await scanAll(({ url }, response) => json(response, numberedPage(url, 60, size)), {
      teamPageSize: 10,
    })
    expect(taken.ids).toEqual(ids(60))
    expect(taken.outcome).toMatchObject(WHOLE)
    expect(taken.urls.every((url) => url.includes('page_size=10'))).toBe(true)
  })

  test('a last page with a next is followed', async () => {
    const taken = await scanAll(({ url }, response) => {
      const page = pageOf(url)
      const total = page < 3 ? 6 : 8 // two rows were added meanwhile
      json(response, { ...numberedPage(url, total, 2) })
    })
    expect(taken.ids).toEqual(ids(8))
    expect(taken.outcome).toMatchObject({ complete: true, stable: false, reason: 'count_drifted' })
  })

  test('a slow consumer delays the pages', async () => {
    await using service = await startService(({ url }, response) => json(response, numberedPage(url, 400, 2)))
    await using heard = clientOf(service.url)
    const scan = heard.client.pages('/v2/patients', { resource: 'patients', concurrency: 3 })
    let taken = 0
    for await (const _page of scan) {
      taken += 1
      if (taken > 20) break
      await delay(5)
      expect(service.received.length).toBeLessThanOrEqual(taken + 3)
    }
    expect(scan.outcome).toMatchObject({ complete: false, stable: false, reason: 'not_finished' })
  })

  test('leaving the scan ends requests in flight', async () => {
    let ended = 0
    await using service = await startService(({ url }, response) => {
      response.on('close', () => {
        if (!response.writableEnded) ended += 1
      })
      if (pageOf(url) < 2) json(response, numberedPage(url, 400, 2))
    })
    await using heard = clientOf(service.url)
    for await (const _page of heard.client.pages('/v2/patients', { resource: 'patients' })) break
    await delay(50)
    await expect.poll(() => service.received.length - 1 - ended).toBe(0)
  })
})

describe('a list that changes during the scan is not trusted', () => {
  const numbered =
    (change: (page: number, body: ReturnType<typeof numberedPage>) => unknown): Handler =>
    ({ url }, response) => {
      const body = change(pageOf(url), numberedPage(url, 12, 3))
      if (body === 404) json(response, { detail: 'Invalid page.' }, 404)
      else json(response, body)
    }

  test.each([
    [
      'the count drifts',
      (page: number, body: object) => (page === 3 ? { ...body, count: 11 } : body),
      { complete: true, reason: 'count_drifted' },
    ],
    [
      'a page is short',
      (page: number, body: { results: unknown[] }) =>
        page === 2 ? { ...body, results: body.results.slice(1) } : body,
      { complete: true, reason: 'short_page' },
    ],
    [
      'the last page is gone (404)',
      (page: number, body: object) => (page === 4 ? 404 : body),
      { complete: false, reason: 'rows_vanished' },
    ],
    [
      'the last page is empty',
      (page: number, body: object) => (page === 4 ? { ...body, results: [] } : body),
      { complete: false, reason: 'rows_vanished' },
    ],
    [
      'a middle page is empty',
      (page: number, body: object) => (page === 3 ? { ...body, results: [], next: null } : body),
      { complete: false, reason: 'rows_vanished' },
    ],
    [
      'the end comes early',
      (page: number, body: object) => (page === 3 ? { ...body, next: null } : body),
      { complete: false, reason: 'rows_vanished' },
    ],
    [
      'the count was wrong all the time',
      (page: number, body: { results: unknown[] }) =>
        page === 4 ? { ...body, results: body.results.slice(1) } : body,
      { complete: true, reason: 'count_mismatch' },
    ],
  ])('%s', async (_name, change, verdict) => {
    const taken = await scanAll(numbered(change as never))
    expect(taken.outcome).toMatchObject({ ...verdict, stable: false })
  })

  test.each([404, 400])('an expired cursor (%i) ends the scan early', async (code) => {
    const taken = await scanAll(({ url }, response) =>
      url.includes('cursor')
        ? json(response, { detail: 'Invalid cursor' }, code)
        : json(response, { next: '?cursor=a', results: rows(0, 2) }),
    )
    expect(taken.outcome).toMatchObject({ complete: false, stable: false, reason: 'rows_vanished' })
  })

  test('a list that does not exist is an error', async () => {
    const error = await errorOf(scanAll((_, response) => json(response, { detail: 'x' }, 404)))
    expect(error).toMatchObject({ code: 'not_found', verdict: 'gone' })
  })

  test('a failure in the middle ends the scan with its error', async () => {
    const error = await errorOf(
      scanAll(({ url }, response) =>
        pageOf(url) === 3 ? json(response, {}, 403) : json(response, numberedPage(url, 12, 3)),
      ),
    )
    expect(error).toMatchObject({ code: 'bad_credentials', verdict: 'stop' })
    expect(error.message).not.toContain(SECRET)
  })
})

describe('a repeated page ends the scan with an error', () => {
  test('a server that ignores the page', async () => {
    const error = await errorOf(
      scanAll((_, response) => json(response, { count: 9, next: '?page=2', results: rows(0, 3) })),
    )
    expect(error).toMatchObject({ code: 'page_repeated', verdict: 'stop' })
    expect((error as { hint?: string }).hint).toContain('pageSize')
  })

  test('even if each page has a new cursor', async () => {
    const error = await errorOf(
      scanAll((_, response, index) => json(response, { next: `?cursor=${index}`, results: rows(0, 3) })),
    )
    expect(error).toMatchObject({ code: 'page_repeated' })
  })

  test('empty pages with ever new cursors end too', async () => {
    const taken = await scanAll((_, response, index) =>
      json(response, { next: `?cursor=${index}`, results: [] }),
    )
    expect(taken.outcome).toMatchObject({ complete: false, stable: false })
    expect(taken.urls.length).toBeLessThan(50)
  })

  test('records without an id are compared completely', async () => {
    const taken = await scanAll(({ url }, response) => {
      const page = pageOf(url)
      json(response, { next: page < 3 ? `?page=${page + 1}` : null, results: [{ title: `t${page}` }] })
    })
    expect(taken.outcome).toMatchObject({ ...WHOLE, pages: 3 })
  })
})

describe('a bare array is the whole list', () => {
  test('without a configured page size', async () => {
    expect((await scanAll((_, response) => json(response, rows(0, 100)))).urls).toHaveLength(1)
  })

  test('unless it is a full page: then the next page is requested', async () => {
    const taken = await scanAll(
      ({ url }, response) => json(response, rows((pageOf(url) - 1) * 4, Math.min(10, pageOf(url) * 4))),
      { teamPageSize: 4 },
    )
    expect(taken.ids).toEqual(ids(10))
    expect(taken.outcome).toMatchObject(WHOLE)
    expect(taken.urls).toEqual([
      '/v2/patients?page_size=4',
      '/v2/patients?page=2&page_size=4',
      '/v2/patients?page=3&page_size=4',
    ])
  })

  test('even if its count is higher than its length', async () => {
    const page = (url: string) => rows((pageOf(url) - 1) * 4, Math.min(8, pageOf(url) * 4))
    const taken = await scanAll(({ url }, response) => json(response, { data: page(url), total: 8 }), {
      teamPageSize: 4,
    })
    expect(taken.ids).toEqual(ids(8))
    expect(taken.outcome).toMatchObject({ ...WHOLE, count: 8 })
    expect(taken.urls).toHaveLength(2)
  })

  test.each([
    ['an empty page', (response: Parameters<Handler>[1]) => json(response, [])],
    ['404', (response: Parameters<Handler>[1]) => json(response, {}, 404)],
  ])('and %s after a full page is its end', async (_name, beyond) => {
    const taken = await scanAll(
      ({ url }, response) => (pageOf(url) === 1 ? json(response, rows(0, 4)) : beyond(response)),
      { pageSize: 4 },
    )
    expect(taken.outcome).toMatchObject({ ...WHOLE, records: 4 })
  })
})

/** A scan of a list in memory: its pages, and the options of each request. */
async function read(
  bodies: readonly unknown[],
  options: Partial<PagesOptions> = {},
  teamPageSize?: number,
): Promise<{ pages: Page[]; calls: RequestOptions[]; outcome: Scan['outcome'] }> {
  const calls: RequestOptions[] = []
  const getter = {
    concurrency: 1,
    pageSize: teamPageSize,
    async get(_path: string, call: RequestOptions = {}): Promise<Answer> {
      calls.push(call)
      const times = { startedAt: 1, receivedAt: 2, serviceDate: 3 }
      const body = bodies[calls.length - 1]
      return { status: 200, headers: {}, body, invalidUtf8: true, bytes: 0, ...times }
    },
  }
  const scan = scanPages(getter, '/list', { resource: 'list', ...options })
  const pages: Page[] = []
  for await (const page of scan) pages.push(page)
  return { pages, calls, outcome: scan.outcome }
}

describe('pages that arrive in another order', () => {
  /** The pages that a scan yields until it fails. Each has two records; the first two are requested at once. */
  async function readUntilFailure(answers: Record<number, () => Promise<unknown>>) {
    const requested: number[] = []
    const getter = {
      concurrency: 2,
      pageSize: 2,
      async get(_path: string, { query }: RequestOptions = {}): Promise<Answer> {
        const number = pageOf(`/list?${query}`)
        requested.push(number)
        const body = await (answers[number]?.() ?? numberedPage(`/list?page=${number}`, 12, 2))
        const times = { startedAt: 1, receivedAt: 2, serviceDate: 3 }
        return { status: 200, headers: {}, body, invalidUtf8: false, bytes: 0, ...times }
      },
    }
    const yielded: number[] = []
    const failure = await errorOf(
      (async () => {
        for await (const { number } of scanPages(getter, '/list', { resource: 'list' })) yielded.push(number)
      })(),
    )
    return { yielded, requested, failure }
  }

  const failing = async () => {
    throw new Error('page refused')
  }
  const late = (body: unknown) => async () => {
    // After everything that is done already.
    await new Promise((resolve) => setImmediate(resolve))
    return body
  }
  const second = numberedPage('/list?page=2', 12, 2)

  test('a page that is fine is kept, though a later one has failed already; no other is requested', async () => {
    const read = await readUntilFailure({ 2: late(second), 3: failing })
    expect(read.failure.message).toBe('page refused')
    expect(read).toMatchObject({ yielded: [1, 2], requested: [1, 2, 3] })
  })

  test('a page that is itself the failure is not kept', async () => {
    const { results } = numberedPage('/list?page=1', 12, 2)
    const read = await readUntilFailure({ 2: late({ ...second, results }), 3: late(null) })
    expect(read.failure).toMatchObject({ code: 'page_repeated' })
    expect(read.yielded).toEqual([1])
  })
})

describe('a page', () => {
  const linked = (results: readonly unknown[], next: string | null, count?: number) => ({
    results,
    next,
    count,
  })

  test('has its place, its records, and the times of its answer', async () => {
    const { pages } = await read([linked([{ id: 1 }], '?cursor=2', 2), linked([{ id: 2 }], null, 2)])
    const shared = { count: 2, startedAt: 1, receivedAt: 2, serviceDate: 3, invalidUtf8: true }
    expect(pages).toMatchObject([
      { ...shared, number: 1, records: [{ id: 1 }], last: false, facts: { number: 1, next: 'cursor=2' } },
      { ...shared, number: 2, records: [{ id: 2 }], last: true, facts: { number: 2, next: null } },
    ])
    const alone = await read([[{ id: 1 }]])
    expect(alone.pages).toMatchObject([{ count: null, last: true, facts: { endKnown: false, next: null } }])
  })

  test('without records is one only if it is the first', async () => {
    const first = await read([linked([], '?cursor=2'), linked([{ id: 2 }], null)])
    expect(first.pages.map(({ number }) => number)).toEqual([1, 2])
    const second = await read([
      linked([{ id: 1 }], '?cursor=2'),
      linked([], '?cursor=3'),
      linked([{ id: 3 }], null),
    ])
    expect(second.pages.map(({ number }) => number)).toEqual([1, 3])
  })

  test('that does not satisfy the filter ends the scan', async () => {
    const bodies = [linked([{ id: 1 }, { id: 2 }], '?cursor=2'), linked([{ id: 3 }], null)]
    const { pages, outcome } = await read(bodies, { fits: (record) => (record as { id: number }).id !== 2 })
    expect(pages.map(({ facts }) => facts.fits)).toEqual([false])
    expect(outcome).toMatchObject({ complete: false, reason: 'filter_ignored', records: 2 })
    expect((await read(bodies)).pages.map(({ facts }) => facts.fits)).toEqual([true, true])
  })

  /** Whether the records are the same page twice. */
  async function isSame(one: unknown, other: unknown, idsRepeat?: boolean): Promise<boolean> {
    const marks: (string | null)[] = []
    for (const records of [one, other]) {
      const { pages } = await read([{ results: records }], idsRepeat === undefined ? {} : { idsRepeat })
      marks.push(pages[0]!.facts.fingerprint)
    }
    expect(marks.every((mark) => /^[\w+/]{22}$/.test(mark ?? ''))).toBe(true)
    return marks[0] === marks[1]
  }

  test.each<[string, unknown, unknown, boolean]>([
    [
      'the same ids in the same order',
      [{ id: 'a', at: 1 }, { uid: 'b' }],
      [{ id: 'a', at: 2 }, { uid: 'b' }],
      true,
    ],
    ['the same ids in another order', [{ id: 'a' }, { id: 'b' }], [{ id: 'b' }, { id: 'a' }], false],
    ['another id', [{ id: 'a' }], [{ id: 'b' }], false],
    ['another id where both have a uid', [{ id: 'a', uid: 'u' }], [{ id: 'b', uid: 'u' }], false],
    ['another uid', [{ uid: 'a', at: 1 }], [{ uid: 'b', at: 1 }], false],
    ['an id under either name', [{ id: 'a' }], [{ uid: 'a' }], true],
    ['a number and its text', [{ id: 7 }], [{ id: '7' }], true],
    [
      'numbers beyond those of JavaScript',
      parseText('[{"id":9007199254740993}]'),
      parseText('[{"id":9007199254740992}]'),
      false,
    ],
    [
      'the same of these',
      parseText('[{"id":9007199254740993,"at":1}]'),
      parseText('[{"id":9007199254740993,"at":2}]'),
      true,
    ],
    ['records without an id', [{ at: 1 }], [{ at: 2 }], false],
    ['a null for an id', [{ id: null, at: 1 }], [{ id: null, at: 2 }], false],
    ['an object for an id', [{ id: { of: 1 }, at: 1 }], [{ id: { of: 1 }, at: 2 }], false],
    ['what is no record', ['a', 1], ['a', 2], false],
    ['two records for one', [{ id: 'a' }, { id: 'b' }], [{ id: 'a","sb' }], false],
  ])('with %s is known again, or not', async (_, one, other, expected) => {
    expect(await isSame(one, other)).toBe(expected)
    expect(await isSame(one, one)).toBe(true)
  })

  test('of a log, where ids repeat, is compared by all of its content', async () => {
    expect(await isSame([{ id: 'a', at: 1 }], [{ id: 'a', at: 2 }], true)).toBe(false)
    expect(await isSame([{ id: 'a', at: 1 }], [{ id: 'a', at: 1 }], true)).toBe(true)
    expect(await isSame([{ id: 'a', at: 1 }], [{ id: 'a', at: 2 }], false)).toBe(true)
  })
})

describe('a request for a page', () => {
  const results = [{ id: 1 }]

  test.each<[string, Partial<PagesOptions>, number | undefined, string]>([
    ['the size of the team', {}, 9, 'page_size=9'],
    ['its own size', { pageSize: 4 }, 9, 'page_size=4'],
    [
      'its own size and a query',
      { pageSize: 4, query: { patient: 'p' } },
      undefined,
      'patient=p&page_size=4',
    ],
    ['no size', { pageSize: null }, 9, ''],
    ['no size, and a query', { query: { patient: 'p' } }, undefined, 'patient=p'],
  ])('has %s', async (_, options, teamPageSize, query) => {
    const { calls, outcome } = await read([{ results, next: null }], options, teamPageSize)
    expect(calls.map((call) => call.query)).toEqual([query])
    expect(outcome).toMatchObject(WHOLE)
  })

  test('is for JSON, or for entries where the scan reads them', async () => {
    expect((await read([{ results, next: null }])).calls[0]).toMatchObject({ as: 'json' })
    const seen: unknown[] = []
    const { pages, calls } = await read([{ results, next: null, count: 1 }], {
      async read(page, entries) {
        seen.push([page, entries])
        return [{ id: 'read' }]
      },
    })
    expect(calls[0]).toMatchObject({ as: 'entries' })
    expect(seen).toEqual([[1, results]])
    expect(pages).toMatchObject([{ records: [{ id: 'read' }], count: 1, last: true }])
  })

  test('is sent again, for JSON, if an entry cannot be read as such; other errors end the scan', async () => {
    const body = { results, next: null }
    const failing = (error: Error) => ({ read: () => Promise.reject(error) })
    const { pages, calls } = await read([body, body], failing(new SyntaxError('no JSON')))
    expect(calls.map((call) => call.as)).toEqual(['entries', 'json'])
    expect(pages).toMatchObject([{ number: 1, records: results }])
    await expect(read([body, body], failing(new TypeError('defect')))).rejects.toThrow('defect')
  })

  test('has the parameters of the path and the meter of the scan, and is ended with it', async () => {
    const meter = {} as NonNullable<PagesOptions['meter']>
    const { calls } = await read([{ results, next: null }], { params: { id: 'x' }, meter })
    expect(calls[0]).toMatchObject({ params: { id: 'x' } })
    expect(calls[0]!.meter).toBe(meter)
    expect(calls[0]!.signal?.aborted).toBe(true)
  })

  test('ends at once, with the reason, when the scan is aborted', async () => {
    const abort = new AbortController()
    let isAsked = false
    const getter = {
      concurrency: 1,
      pageSize: undefined,
      get: (_: string, call: RequestOptions = {}) =>
        new Promise<Answer>((_resolve, reject) => {
          isAsked = true
          call.signal!.addEventListener('abort', () => reject(call.signal!.reason), { once: true })
          abort.abort(new Error('stopped by hand'))
        }),
    }
    const options = { resource: 'list', signal: abort.signal }
    await expect(scanPages(getter, '/list', options).next()).rejects.toThrow('stopped by hand')
    expect(isAsked).toBe(true)
    isAsked = false
    await expect(scanPages(getter, '/list', options).next()).rejects.toThrow('stopped by hand')
    expect(isAsked).toBe(false)
  })

  test('of a scan that has ended leaves nothing at the signal of its run', async () => {
    const { signal } = new AbortController()
    await read([{ results, next: null }], { signal })
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})
