/** Pages in flight when a scan ends: it waits for none of them, and they are given up. */
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Answer, RequestOptions } from '../../../src/api/http/answer.ts'
import { type Page, scanPages } from '../../../src/api/paging/pages.ts'

/** A list of five pages; those of the given numbers arrive long after the others. */
function listOf(hanging: readonly number[], bodies: { readonly [page: number]: unknown } = {}) {
  const asked: string[] = []
  const givenUp: number[] = []
  const get = async (_: string, { query, signal }: RequestOptions = {}): Promise<Answer> => {
    asked.push(String(query))
    const number = Number(new URLSearchParams(String(query)).get('page') ?? 1)
    if (hanging.includes(number)) {
      signal!.addEventListener('abort', () => givenUp.push(number))
      // Long after everything else; a scan that waits for it yields the page.
      for (let turn = 0; turn < 200; turn++) await setImmediate()
      signal!.throwIfAborted()
    }
    const next = number < 5 ? `/list?page=${number + 1}` : null
    const body = bodies[number] ?? { count: 5, next, results: [{ id: `r${number}` }] }
    const times = { startedAt: number, receivedAt: number, serviceDate: null }
    return { status: 200, headers: {}, body, invalidUtf8: false, bytes: 1, ...times }
  }
  return { asked, givenUp, client: { concurrency: 10, pageSize: undefined, get } }
}

async function read(scan: ReturnType<typeof scanPages>) {
  const numbers: number[] = []
  let step = await scan.next()
  for (; step.done !== true; step = await scan.next()) numbers.push((step.value as Page).number)
  return { numbers, outcome: step.value }
}

test('a page that ends the list early ends the scan, though later pages have not arrived', async () => {
  const list = listOf([4, 5], { 3: { count: 5, next: null, results: [] } })
  const { numbers, outcome } = await read(scanPages(list.client, '/list', { resource: 'list' }))
  expect(numbers).toEqual([1, 2])
  expect(outcome).toMatchObject({ complete: false, reason: 'rows_vanished' })
  expect(list.givenUp).toEqual([4, 5])
})

test('a record that the filter should have left out ends the scan, though later pages have not arrived', async () => {
  const list = listOf([4, 5], { 3: { count: 5, next: '?page=4', results: [{ id: 'misfit' }] } })
  const fits = (record: unknown) => (record as { id: string }).id !== 'misfit'
  const { outcome } = await read(scanPages(list.client, '/list', { resource: 'list', fits }))
  expect(outcome).toMatchObject({ complete: false, reason: 'filter_ignored' })
  expect(list.givenUp).toEqual([4, 5])
})

test.each([
  [1, ['', 'page=2']],
  [2, ['', 'page=2', 'page=3']],
])('no more pages are requested at a time than the scan may: %i', async (concurrency, asked) => {
  const list = listOf([2, 3, 4, 5])
  const scan = scanPages(list.client, '/list', { resource: 'list', concurrency })
  expect((await scan.next()).value).toMatchObject({ number: 1 })
  void scan.next().catch(() => {})
  await setImmediate()
  expect(list.asked).toEqual(asked)
})

test('a scan that is left has its pages given up', async () => {
  const list = listOf([2, 3, 4, 5])
  for await (const page of scanPages(list.client, '/list', { resource: 'list' })) {
    expect(page.number).toBe(1)
    break
  }
  expect(list.givenUp).toEqual([2, 3, 4, 5])
})
