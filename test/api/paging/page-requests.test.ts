/** What each request of a list names, and what is asked again of a page that could not be read. */
import { expect, test } from 'vitest'
import type { Answer, RequestOptions } from '../../../src/api/http/answer.ts'
import type { Getter, PagesOptions } from '../../../src/api/paging/page.ts'
import { scanPages } from '../../../src/api/paging/pages.ts'
import { queryText } from '../../../src/api/paths.ts'

/** A list of two pages; the calls that were made for it. */
function list(pageSize?: number) {
  const calls: RequestOptions[] = []
  const getter: Getter = {
    ...{ concurrency: 1, pageSize },
    async get(path, options = {}): Promise<Answer> {
      expect(path).toBe('/v2/patients/{id}/forms')
      const { signal, ...named } = options
      expect(signal?.aborted).toBe(false)
      calls.push(named)
      const isFirst = !queryText(options.query).includes('page=2')
      const body = { results: [{ id: isFirst ? 'a' : 'b' }], next: isFirst ? '?page=2&size=1' : null }
      const times = { startedAt: 1, receivedAt: 2, serviceDate: null }
      return { status: 200, headers: {}, body, invalidUtf8: false, bytes: 0, ...times }
    },
  }
  const read = async (options: Partial<PagesOptions>) => {
    const records: unknown[] = []
    const meter = { requests: 0, throttled: 0 }
    const scan = scanPages(getter, '/v2/patients/{id}/forms', {
      ...{ resource: 'forms', params: { id: 'p' }, meter },
      ...options,
    })
    for await (const page of scan) records.push(...page.records)
    for (const call of calls) expect(call.meter).toBe(meter)
    return { records, calls: calls.map(({ meter: _, ...named }) => named) }
  }
  return { read }
}

test.each<[string, number | undefined, Partial<PagesOptions>, readonly [string, string]]>([
  ['nothing but the next page', undefined, {}, ['', 'page=2&size=1']],
  ['the size of the client', 50, {}, ['page_size=50', 'page=2&size=1&page_size=50']],
  ['no size', 50, { pageSize: null }, ['', 'page=2&size=1']],
  ['a size of its own', 50, { pageSize: 7 }, ['page_size=7', 'page=2&size=1&page_size=7']],
  ['the filters too', undefined, { query: { q: 'ä' } }, ['q=%C3%A4', 'page=2&size=1&q=%C3%A4']],
])('a scan asks for %s', async (_, size, options, queries) => {
  const { records, calls } = await list(size).read(options)
  expect(records).toEqual([{ id: 'a' }, { id: 'b' }])
  const same = { as: 'json', params: { id: 'p' } }
  expect(calls).toEqual(queries.map((query) => ({ ...same, query })))
})

test('a page whose entries cannot be read is requested again as a whole, with all else the same; other errors end the scan', async () => {
  const broken = async (page: number, entries: readonly unknown[]) => {
    if (page === 2) throw new SyntaxError('no JSON')
    return entries
  }
  const { records, calls } = await list().read({ read: broken })
  expect(records).toEqual([{ id: 'a' }, { id: 'b' }])
  const params = { id: 'p' }
  expect(calls).toEqual([
    { as: 'entries', query: '', params },
    { as: 'entries', query: 'page=2&size=1', params },
    { as: 'json', query: 'page=2&size=1', params },
  ])
  const fails = async () => Promise.reject(new TypeError('a fault of ours'))
  await expect(list().read({ read: fails })).rejects.toThrow('a fault of ours')
})
