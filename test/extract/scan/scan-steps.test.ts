/** The steps of a scan, without a warehouse or a service: what is asked, and what is done with each page. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { BatchMode } from '../../../src/extract/scan/batcher.ts'
import type { Stream } from '../../../src/streams/stream.ts'
import { webhookDeliveries } from '../../../src/streams/webhook-deliveries.ts'
import { forgetAll, given, named, seenIds, steps } from '../support/scan-neighbours.ts'
import { asked, known, page, person, SESSION, STARTED, scan } from '../support/scanned.ts'

vi.mock('../../../src/extract/scan/seen-ids.ts', async () => ({
  openSeenIds: (await import('../support/scan-neighbours.ts')).openSeenIds,
}))
vi.mock('../../../src/extract/scan/batcher.ts', async (original) => ({
  ...(await original<typeof import('../../../src/extract/scan/batcher.ts')>()),
  openBatcher: (await import('../support/scan-neighbours.ts')).openBatcher,
}))
vi.mock('../../../src/extract/scan/known-entries.ts', async (original) => ({
  ...(await original<typeof import('../../../src/extract/scan/known-entries.ts')>()),
  openKnownEntries: (await import('../support/scan-neighbours.ts')).openKnownEntries,
}))
vi.mock('../../../src/extract/scan/scan-progress.ts', async () => ({
  openScanProgress: (await import('../support/scan-neighbours.ts')).openScanProgress,
}))
vi.mock('../../../src/extract/conflicts/fetch-by-id.ts', async () => ({
  fetchWhole: (await import('../support/scan-neighbours.ts')).fetchWhole,
}))

beforeEach(forgetAll)

const PLACE = { teamId: 3, stream: 'patients' }

describe('each page', () => {
  test('is sampled and read; its ids are noted, known entries looked up, the others loaded, and progress kept where due', async () => {
    Object.assign(given, { due: [2], conflicts: [['c1', 'c2'], ['c3']], repeated: ['twice'], distinct: 5 })
    const { report, source, seen } = await scan(
      [page(1, known('a'), person('b'), person(null)), page(2, person('d'), known('e'), known('f'))],
      {},
      { known: true, progress: 'begin' },
    )
    expect(steps.slice(0, 4)).toEqual([
      ['open seen ids', SESSION],
      ['open batcher', 'skip-unchanged'],
      ['open known', SESSION, { recall: true }],
      [
        ...['open progress', SESSION, true],
        { request: '["v2.1","path of /v2/patients",null,false]', isContinued: false },
      ],
    ])
    const read = expect.objectContaining({ kind: 'record' })
    expect(steps.slice(4)).toEqual([
      ['sample', 1],
      ['decide', 'resumed', 1],
      ['seen', 'b'],
      ['seen', 'a'],
      ['add known', ['a'], [read]],
      ['add', ['b'], [null]],
      ['note', 1, [false, true, true]],
      ['flush'],
      ['progress', 'facts of 1', ['b', null, 'a']],
      ['sample', 2],
      ['decide', 'resumed', 2],
      ['seen', 'd'],
      ['seen', 'e'],
      ['seen', 'f'],
      ['add known', ['e', 'f'], [read, read]],
      ['add', ['d'], []],
      ['note', 2, [true, false, false]],
      ['flush'],
      ['progress', 'facts of 2', ['d', 'e', 'f']],
      ['finish'],
      ['keep summaries', PLACE, new Set(['c1', 'c2', 'later'])],
      ['kept', { startedAt: STARTED, newest: null, unsettled: new Set(['c1', 'c2', 'later']) }],
      ['finish'],
      ['keep known', 7],
    ])
    expect(report).toEqual({
      ...{ stable: true, reason: null, startedAt: STARTED, newest: null, seenIds, complete: true },
      ...{ conflicting: ['c1', 'c2', 'c3', 'twice'], distinct: 6, count: 6, listed: 6, stopped: false },
    })
    expect(seen).toEqual([
      { fetched: 3, expected: 50 },
      { fetched: 6, expected: 50 },
    ])
    expect(source.tally.fetched).toBe(106)
    expect(source.step).toEqual({ phase: 'merge', pages: 2, records: 6, expected: 50, pagesLeft: 15 })
  })

  test('of a continued scan is added to the earlier pages, and the scan keeps their start and newest date', async () => {
    const continued = { startedAt: '2001-01-01T00:00:00.000000Z', newest: '2001-08-01T00:00:00.000000Z' }
    const kept = { first: 'the first', pages: new Map() }
    Object.assign(given, { continued, kept, due: [1, 2] })
    const { report, seen } = await scan(
      [page(1, person('a', '2001-07-01T00:00:00Z')), page(2, person('b', '2001-07-02T00:00:00Z'))],
      {},
      { progress: 'continue', dated: 'at', query: { after: '2001' } },
    )
    expect(asked.options.kept).toBe(kept)
    expect(named('open progress')[0]![3]).toEqual({
      ...{ request: '["v2.1","path of /v2/patients",{"after":"2001"},false]', isContinued: true },
    })
    expect(named('kept').map(([, state]) => state)).toMatchObject([
      { startedAt: STARTED, newest: '2001-07-01T00:00:00.000000Z' },
      continued,
    ])
    expect(report).toMatchObject(continued)
    expect(seen.at(-1)).toEqual({ fetched: 42, expected: 50 })
  })
})

describe('the list is asked for', () => {
  test('with the resource, meter, signal and query of the source, and no known entries, progress or filter unless requested', async () => {
    await scan([], {}, { query: { after: '2001', before: '2002' } })
    expect(asked).toEqual({
      path: 'path of /v2/patients',
      options: {
        ...{ resource: 'patients', meter: 'a meter', signal: 'a signal', idsRepeat: false },
        query: { after: '2001', before: '2002' },
      },
    })
    expect(named('open known', 'open progress', 'keep known')).toEqual([])
  })

  test('under the name that the service lists it by; a log may repeat ids, and its entries are never skipped as known', async () => {
    const listedAs = { ...webhookDeliveries, listedAs: 'events' } as unknown as Stream
    await scan([], {}, { known: true }, { stream: listedAs })
    expect(asked.options).toMatchObject({ resource: 'events', idsRepeat: true })
    expect(named('open known')).toEqual([])
  })

  test('with a filter that lets entries pass that are not records', async () => {
    const satisfies = (payload: object) => 'x' in payload
    await scan([], {}, { known: true, satisfies })
    expect([{ x: 1 }, { y: 1 }, 7, null, []].map((each) => asked.options.fits!(each))).toEqual([
      ...[true, false, true, true, true],
    ])
    await scan([], {}, { known: true, dated: 'at' })
    // Their dates, and whether they satisfy a filter, are not kept with known entries.
    expect(named('open known')).toEqual([])
  })

  test.each<[BatchMode, boolean]>([
    ['skip-unchanged', true],
    ['straight', false],
    ['merge', false],
  ])('with known entries looked up only if records are compared: %s', async (mode, recall) => {
    await scan([], {}, { known: true }, { mode })
    expect([named('open known'), asked.options.read]).toEqual([
      [['open known', SESSION, { recall }]],
      'reads known',
    ])
    await scan([], {}, { known: true, everySummary: true }, { mode })
    expect(named('open known')[1]).toEqual(['open known', SESSION, { recall: false }])
  })
})
