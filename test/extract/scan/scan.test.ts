/** One scan of a whole list: when it is stable, what it reports, and which summaries are fetched by id. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { instantOf, microsOf, parseInstant } from '../../../src/core/time.ts'
import type { BatchMode } from '../../../src/extract/scan/batcher.ts'
import { type ScanRequest, scanStream } from '../../../src/extract/scan/scan.ts'
import type { Source } from '../../../src/extract/source.ts'
import { clientOf, json, type Received } from '../../api/support/service.ts'
import { ago, notingLoad, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

async function scan(
  stream: Parameters<Rig['source']>[0],
  {
    mode = 'skip-unchanged',
    over = {},
    ...request
  }: ScanRequest & { mode?: BatchMode; over?: Partial<Source> } = {},
) {
  const source = await rig.source(stream, over)
  const report = await scanStream(source, rig.session, mode, request)
  return { report, source }
}

/** Answers the list with these pages, one after another, whatever page is requested beyond them. */
function listPages(
  path: string,
  pages: readonly { count?: number | null; results: readonly unknown[] }[],
): void {
  rig.service.interfere = ({ url }, response) => {
    const at = new URL(url, rig.service.url)
    if (at.pathname !== path) return false
    const page = Number(at.searchParams.get('page') ?? 1)
    const { count = pages.reduce((sum, each) => sum + each.results.length, 0), results } = pages[page - 1]!
    at.searchParams.set('page', String(page + 1))
    json(response, { count, next: page < pages.length ? at.href : null, previous: null, results })
    return true
  }
}

const person = (id: string, more: object = {}) => ({ id, first_name: 'A', ...more })
const persons = (count: number) => Array.from({ length: count }, (_, at) => person(`p${at}`))
const deadLettersOf = () =>
  rig.rows<{ record_id: string | null; reason: string; body: string; origin: string }>(
    `select record_id, reason, origin, convert_from(body, 'UTF8') as body
     from intake_ops.dead_letters join intake_raw.set_aside on dead_letter_id = id order by record_id`,
  )

describe('a scan is stable', () => {
  test('when it reached the end of a list that is as long as the service counts', async () => {
    rig.service.records.patients.push(...persons(23))
    const before = ago(0)
    const seen: unknown[] = []
    const over: Partial<Source> = { onProgress: (progress) => seen.push(progress) }
    const { report, source } = await scan('patients', { mode: 'straight', over })
    expect(report).toMatchObject({ stable: true, reason: null, distinct: 23, count: 23 })
    expect(report).toMatchObject({
      complete: true,
      listed: 23,
      conflicting: [],
      newest: null,
      stopped: false,
    })
    // The `Date` of answers is cut to seconds, and read when they come: the start is a lower bound on the service's clock.
    const passed = microsOf(ago(0)) - microsOf(before)
    expect(microsOf(report.startedAt)).toBeGreaterThanOrEqual(microsOf(before) - 1_000_000 - passed)
    expect(microsOf(report.startedAt)).toBeLessThanOrEqual(microsOf(before) + passed)
    expect([...(await report.seenIds.ids())].sort()).toEqual(
      persons(23)
        .map(({ id }) => id)
        .sort(),
    )
    expect(source.tally).toMatchObject({ fetched: 23, changed: 23, unchanged: 0, deadLetters: 0 })
    expect(seen).toHaveLength(3)
    expect(seen.at(-1)).toEqual({ fetched: 23, expected: 23 })
    const origins = await rig.rows(
      'select origin, count(*)::int as n from intake_raw.records group by 1 order by 1',
    )
    expect(origins).toEqual([
      { origin: 'run:1 page:1', n: 10 },
      { origin: 'run:1 page:2', n: 10 },
      { origin: 'run:1 page:3', n: 3 },
    ])
  })

  test('when it reports its own progress, after others of the same run', async () => {
    rig.service.records.patients.push(...persons(3))
    const seen: unknown[] = []
    const source = await rig.source('patients', { onProgress: (progress) => seen.push(progress) })
    await scanStream(source, rig.session, 'skip-unchanged')
    await scanStream(source, rig.session, 'skip-unchanged')
    expect(seen).toEqual([
      { fetched: 3, expected: 3 },
      { fetched: 3, expected: 3 },
    ])
    expect(source.tally).toMatchObject({ fetched: 6, changed: 3, unchanged: 3 })
  })

  test('even with records without an id, which count as distinct, and with records whose id alone is known', async () => {
    listPages('/v2/patients', [{ results: [person('p1'), { first_name: 'no id' }, { id: null }, 7] }])
    const { report, source } = await scan('patients')
    expect(report).toMatchObject({ stable: true, distinct: 4, count: 4 })
    expect(await report.seenIds.ids()).toEqual(['p1'])
    expect(source.tally).toMatchObject({ fetched: 4, changed: 1, deadLetters: 3 })
  })

  test('not when it lists a record twice: the record conflicts, and both states were loaded', async () => {
    listPages('/v2/patients', [
      { results: [person('p1'), person('p2')] },
      { results: [person('p1', { first_name: 'B' }), person('p3')] },
    ])
    const { report } = await scan('patients')
    expect(report).toMatchObject({
      stable: false,
      reason: 'rows_repeated',
      distinct: 3,
      count: 4,
      complete: true,
    })
    expect(report.conflicting).toContain('p1')
    expect(await rig.rows('select id from intake.patients order by id')).toHaveLength(3)
  })

  test('when the service gives no count', async () => {
    listPages('/v2/patients', [{ count: null, results: persons(3) }])
    expect((await scan('patients')).report).toMatchObject({ stable: true, count: null, distinct: 3 })
  })

  test('not when the count changed, or pages end before it', async () => {
    const [a, b] = [persons(4).slice(0, 2), persons(4).slice(2)]
    listPages('/v2/patients', [
      { count: 4, results: a },
      { count: 5, results: b },
    ])
    expect((await scan('patients')).report).toMatchObject({
      stable: false,
      reason: 'count_drifted',
      distinct: 4,
    })
    listPages('/v2/patients', [{ count: 7, results: [...a, ...b] }])
    const { report } = await scan('patients')
    expect(report).toMatchObject({
      stable: false,
      reason: 'count_mismatch',
      complete: true,
      count: 7,
      listed: 4,
    })
  })

  test('of a log, when as many entries were listed as it had at the start, with any ids', async () => {
    const entry = (id: string, attempts: number) => ({ id, attempts, created_at: '2026-01-01T00:00:00Z' })
    listPages('/v2/webhooks/events', [
      { count: 4, results: [entry('a', 1), entry('a', 2)] },
      { count: 5, results: [entry('b', 1), entry('b', 2), entry('c', 1)] },
    ])
    const { report } = await scan('webhook_deliveries')
    expect(report).toMatchObject({ stable: true, reason: null, distinct: 3, listed: 5 })
    expect(await rig.rows('select id, attempts from intake.webhook_deliveries order by id')).toEqual([
      { id: 'a', attempts: 2 },
      { id: 'b', attempts: 2 },
      { id: 'c', attempts: 1 },
    ])
    listPages('/v2/webhooks/events', [{ count: 2, results: [entry('a', 1), entry('a', 2)] }])
    expect((await scan('webhook_deliveries')).report).toMatchObject({ stable: true, distinct: 1, listed: 2 })
    listPages('/v2/webhooks/events', [{ count: 9, results: [entry('a', 1)] }])
    expect((await scan('webhook_deliveries')).report).toMatchObject({ stable: false, listed: 1, count: 9 })
  })
})

test('a record that does not satisfy the filter ends the scan, and the records before it are loaded', async () => {
  listPages('/v2/patients', [{ results: [person('p1'), person('p2', { first_name: 'X' })] }])
  const satisfies = (payload: object) => (payload as { first_name?: string }).first_name !== 'X'
  const { report } = await scan('patients', { satisfies })
  expect(report).toMatchObject({ stable: false, stopped: true, reason: 'filter_ignored' })
  // An entry that is no record satisfies any filter.
  listPages('/v2/patients', [{ results: [person('p1'), 7] }])
  expect((await scan('patients', { satisfies })).report).toMatchObject({ stopped: false, stable: true })
})

test('the query is sent with each page', async () => {
  rig.service.records.patients.push(...persons(11))
  await scan('patients', { query: { updated_after: '2026-01-01' } })
  expect(rig.service.received).toHaveLength(2)
  for (const { url } of rig.service.received) expect(url).toContain('updated_after=2026-01-01')
})

describe('the newest date', () => {
  const newest = async (...dates: readonly unknown[]) => {
    listPages('/v2/patients', [{ results: dates.map((at, nth) => person(`p${nth}`, { at })) }])
    return (await scan('patients', { dated: 'at' })).report.newest
  }

  test.each<[string, readonly unknown[], string | null]>([
    [
      'is the latest of all',
      ['2026-01-02', '2026-01-03T10:00:00.000001Z', '2026-01-03T10:00:00Z'],
      '2026-01-03T10:00:00.000001Z',
    ],
    [
      'is compared in one zone',
      ['2026-01-03T00:30:00+02:00', '2026-01-02T23:00:00Z'],
      '2026-01-02T23:00:00.000000Z',
    ],
    ['is none where there is none', [null, undefined, 'soon', 7, {}], null],
    [
      'is never one of the far future',
      ['2026-01-01T00:00:00Z', '2999-01-01T00:00:00Z'],
      '2026-01-01T00:00:00.000000Z',
    ],
  ])('%s', async (_, dates, expected) => {
    expect(await newest(...dates)).toBe(expected)
  })

  test('may be five minutes ahead, for different clocks', async () => {
    const [near, far] = [ago(-280), ago(-320)]
    expect(await newest(near)).toBe(parseInstant(near))
    expect(await newest(far)).toBeNull()
  })

  test('is the latest over all pages', async () => {
    listPages('/v2/patients', [
      { results: [person('a', { at: '2026-01-05T00:00:00Z' })] },
      { results: [person('b', { at: '2026-01-04T00:00:00Z' })] },
    ])
    expect((await scan('patients', { dated: 'at' })).report.newest).toBe('2026-01-05T00:00:00.000000Z')
    expect((await scan('patients')).report.newest).toBeNull()
  })
})

describe('entries that are summaries', () => {
  const OLD = '2026-01-01T00:00:00Z'
  const packet = (id: string, name: string, updated_at: string | null = OLD) => ({ id, name, updated_at })
  const whole = (entry: { id: string }) => ({ ...entry, forms: ['f1'] })

  /** Lists these entries, and returns each complete record by its id. */
  function serve(...entries: readonly ReturnType<typeof packet>[]): void {
    rig.service.records.packets = entries.map(whole)
    listPages('/v2/packets', [{ results: entries }])
  }
  const fetched = () =>
    (rig.service.received as Received[])
      .splice(0)
      .filter(({ url }) => url !== '/v2/packets')
      .map(({ url }) => url.split('/').at(-1)!)
      .sort()

  /** One scan as in a run: scan, and store the summaries. */
  async function read(request: ScanRequest = {}) {
    const { report, source } = await scan('packets', request)
    await report.seenIds.keepSummaries({ teamId: rig.teamId, stream: 'packets' })
    return { ids: fetched(), tally: source.tally, report }
  }

  test('are fetched only when new or changed, unless all are requested', async () => {
    serve(packet('a', 'A'), packet('b', 'B'))
    expect(await read()).toMatchObject({ ids: ['a', 'b'], tally: { changed: 2, unchanged: 0 } })
    expect(await rig.rows('select packet_id, form_id from intake.packet_forms order by 1')).toEqual([
      { packet_id: 'a', form_id: 'f1' },
      { packet_id: 'b', form_id: 'f1' },
    ])
    expect(await read()).toMatchObject({ ids: [], tally: { fetched: 2, changed: 0, unchanged: 2 } })
    serve(packet('a', 'A'), packet('b', 'B', '2026-01-02T00:00:00Z'), packet('c', 'C'))
    expect(await read()).toMatchObject({ ids: ['b', 'c'], tally: { changed: 2, unchanged: 1 } })
    expect(await read()).toMatchObject({ ids: [] })
    expect(await read({ everySummary: true })).toMatchObject({
      ids: ['a', 'b', 'c'],
      tally: { unchanged: 3 },
    })
    expect(await read()).toMatchObject({ ids: [] })
  })

  test('that contain the whole record are not fetched', async () => {
    rig.service.records.packets = [whole(packet('a', 'A'))]
    expect(await read()).toMatchObject({ ids: [], tally: { changed: 1 } })
    expect((await rig.rows('select origin from intake_raw.records'))[0]!.origin).toBe('run:1 page:1')
  })

  test('are whole records where no version of the API is requested, which alone has the other fields', async () => {
    rig.service.records.documents = [{ id: 'd', name: 'D' }]
    const fetchedOf = async (over: Partial<Source>) => {
      await scan('documents', { over })
      return (rig.service.received as Received[])
        .splice(0)
        .flatMap(({ url }) => /documents\/(.+)$/.exec(url)?.[1] ?? [])
    }
    await using plain = clientOf(rig.service.url, { apiVersion: '' })
    expect(await fetchedOf({ client: plain.client })).toEqual([])
    expect(await fetchedOf({})).toEqual(['d'])
  })

  test('are fetched each time when they are undated, or when a change in the same second would not show', async () => {
    serve(packet('undated', 'A', null), packet('fresh', 'B', ago(2)), packet('old', 'C', ago(8)))
    expect((await read()).ids).toEqual(['fresh', 'old', 'undated'])
    expect((await read()).ids).toEqual(['fresh', 'undated'])
  })

  test('of records with a problem are fetched again the next time', async () => {
    serve(packet('a', 'A'))
    rig.service.records.packets = [{ ...whole(packet('a', 'A')), text: '\u0000' }]
    expect((await read()).ids).toEqual(['a'])
    expect((await read()).ids).toEqual(['a'])
  })

  test('are also ids alone, of any stream; an answer that is the id alone is a dead letter, and no value is lost', async () => {
    const { records } = rig.service
    records.patients = [person('p1'), person('p2')]
    await scan('patients')
    fetched()
    listPages('/v2/patients', [{ results: [{ id: 'p1' }, { uid: 'p2' }, { id: 'p3' }] }])
    records.patients = [person('p1', { first_name: 'B' }), { id: 'p2' }, { id: 'p3', uid: 'p3' }]
    const { report, source } = await scan('patients')
    expect(fetched().filter((path) => path !== 'patients')).toEqual(['p1', 'p2', 'p3'])
    expect(source.tally).toMatchObject({ fetched: 3, changed: 1, deadLetters: 2 })
    expect(report).toMatchObject({ stable: true, distinct: 3 })
    expect(await rig.rows('select id, first_name from intake.patients order by id')).toEqual([
      { id: 'p1', first_name: 'B' },
      { id: 'p2', first_name: 'A' },
    ])
    const reason = 'the record fetched by id has nothing but its id'
    expect(await deadLettersOf()).toMatchObject([
      { record_id: 'p2', reason, body: '{"uid":"p2"}' },
      { record_id: 'p3', reason },
    ])
  })

  test('whose record is not found are dead letters with the list entry, and are fetched again', async () => {
    serve(packet('a', 'A'), packet('b', 'B'))
    rig.service.records.packets = [whole(packet('a', 'A'))]
    expect(await read()).toMatchObject({ ids: ['a', 'b'], tally: { changed: 1, deadLetters: 1 } })
    const [deadLetter] = await deadLettersOf()
    expect(deadLetter).toMatchObject({
      record_id: 'b',
      origin: 'run:1 page:1',
      reason: 'is in the list, but not found by its id',
    })
    expect(JSON.parse(deadLetter!.body)).toEqual(packet('b', 'B'))
    expect((await read()).ids).toEqual(['b'])
  })

  test('whose record the service refuses are dead letters with the list entry', async () => {
    serve(packet('a', 'A'))
    const listing = rig.service.interfere
    rig.service.interfere = (request, response) => {
      if (listing(request, response)) return true
      json(response, { detail: 'no' }, 422)
      return true
    }
    await read()
    const [deadLetter] = await deadLettersOf()
    expect(deadLetter).toMatchObject({
      record_id: 'a',
      origin: 'run:1 fetch',
      reason: expect.stringContaining('(422)'),
    })
    expect(JSON.parse(deadLetter!.body)).toEqual(packet('a', 'A'))
  })

  test('have the origin of the fetch, and a time not before that of the page', async () => {
    serve(packet('a', 'A'))
    const { report } = await read()
    const [row] = await rig.rows<{ origin: string; at: Date }>(
      'select origin, observed_at as at from intake_raw.records',
    )
    expect(row!.origin).toBe('run:1 fetch')
    expect(instantOf(row!.at.getTime() * 1000 + 999) >= report.startedAt).toBe(true)
  })
})

test('a mode for straight loads loads straight, and a page that skips unchanged records omits them', async () => {
  rig.service.records.patients.push(...persons(3))
  const noting = notingLoad()
  await scan('patients', { mode: 'straight', over: { load: noting.load } })
  await scan('patients', { mode: 'skip-unchanged', over: { load: noting.load } })
  expect(noting.batches.map(({ mode, ids }) => [mode, ids.length])).toEqual([['straight', 3]])
})
