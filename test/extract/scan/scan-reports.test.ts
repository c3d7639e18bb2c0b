/** What a scan reports of a list, without a warehouse or a service: whether it was stable, and if not why. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { type Instant, instantOf } from '../../../src/core/time.ts'
import type { Stream } from '../../../src/streams/stream.ts'
import { webhookDeliveries } from '../../../src/streams/webhook-deliveries.ts'
import { forgetAll, given, named } from '../support/scan-neighbours.ts'
import { BEGUN, page, person, scan } from '../support/scanned.ts'

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

describe('the report', () => {
  const log = { stream: webhookDeliveries }
  const two = [page(1, person('a'), person('b'))]
  test.each<[string, object, object, object, { stream?: Stream }]>([
    ['that the list ended early', { complete: false, reason: null }, { reason: 'not complete' }, {}, {}],
    ['why the list ended early', { complete: false, reason: 'loop' }, { reason: 'loop' }, {}, {}],
    ['why it was not stable', { stable: false, reason: 'count_drifted' }, { complete: true }, {}, {}],
    ['that ids repeat', { count: 3 }, { reason: 'rows_repeated', count: 3, distinct: 2 }, {}, {}],
    ['that the filter failed', { stable: false, reason: 'filter_ignored' }, { stopped: true }, {}, {}],
    ['that a log is not whole', { complete: false, reason: 'loop' }, { reason: 'loop' }, {}, log],
    ['that a log lacks entries', { stable: false, count: 3, reason: 'r' }, { reason: 'r' }, {}, log],
  ])('says %s', async (_, outcome, expected, request, of) => {
    given.distinct = 2
    const { report } = await scan(two, outcome, request, of)
    expect(report).toMatchObject({ ...expected, stable: false, listed: 2, stopped: 'stopped' in expected })
    if ('reason' in outcome && outcome.reason !== null) expect(report.reason).toBe(outcome.reason)
  })

  test.each<[string, object, { stream?: Stream }]>([
    ['the service gives no count', { count: null }, {}],
    ['a log has grown', { stable: false, count: 1, reason: 'count_drifted' }, log],
    ['a log has no count', { stable: false, count: null, reason: 'r' }, log],
  ])('is stable where %s', async (_, outcome, of) => {
    given.distinct = 2
    expect((await scan(two, outcome, {}, of)).report).toMatchObject({ stable: true, reason: null })
  })

  test('forgets no known entries of a list that ended early', async () => {
    await scan(two, { complete: false }, { known: true })
    expect(named('keep known')).toEqual([['keep known', null]])
  })

  test('ignores dates more than five minutes after a page was received', async () => {
    const at = (number: number, micros: number) => instantOf(BEGUN + number * 1_000_000 + micros) as string
    const [limit, beyond] = [300_500_000, 300_500_001]
    const dated = { dated: 'at' }
    const pages = [page(1, person('a', at(1, limit))), page(2, person('b', at(2, beyond)))]
    expect((await scan(pages, {}, dated)).report.newest).toBe(at(1, limit) as Instant)
    expect((await scan([page(1, person('a', at(1, beyond)))], {}, dated)).report.newest).toBeNull()
  })
})
