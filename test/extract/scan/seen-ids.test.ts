/** Seen ids: which ids a scan saw, saw twice, or missed, and which summaries need no fetch by id. */
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Envelope } from '../../../src/core/envelope.ts'
import { instantOf, microsOf } from '../../../src/core/time.ts'
import { countLive, openSeenIds, type SeenIds } from '../../../src/extract/scan/seen-ids.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { patients } from '../../../src/streams/patients.ts'
import { naughtyText } from '../../core/naughty.ts'
import { loadEnvelopes, takeWhole } from '../../load/loading.ts'
import { recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

const patient = (id: string, more: object = {}) => ({ id, first_name: 'A', ...more })

describe('ids', () => {
  let rig: Rig
  beforeAll(async () => {
    rig = await openRig()
  })
  afterAll(() => rig[Symbol.asyncDispose]())

  /** Possible ids that are difficult in a file of lines. */
  const id = fc.oneof(
    fc.constantFrom('a', 'A', 'a ', '\\N', '\\.', 'a\tb', 'a\nb', 'a\r', '\\', '', "'", '"'),
    naughtyText.filter((text) => !text.includes('\0') && text.isWellFormed()),
  )

  test('are counted once each, listed once each in order, and reported when seen twice', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(id, { maxLength: 30 }), async (ids) => {
        const seenIds = await openSeenIds(rig.session)
        for (const each of ids) seenIds.add(each)
        const once = new Set(ids)
        const twice = [...once].filter((each) => ids.indexOf(each) !== ids.lastIndexOf(each))
        expect(await seenIds.count()).toBe(once.size)
        expect([...(await seenIds.ids())].sort()).toEqual([...once].sort())
        expect([...(await seenIds.repeated())].sort()).toEqual(twice.sort())
        // Reading changes nothing.
        expect(await seenIds.count()).toBe(once.size)
      }),
      { numRuns: 60 },
    )
  })

  test('are in order, and those added after a count are counted next time', async () => {
    const seenIds = await openSeenIds(rig.session)
    for (const each of ['c', 'a', 'b', 'a']) seenIds.add(each)
    expect(await seenIds.count()).toBe(3)
    for (const each of ['d', 'c', 'b']) seenIds.add(each)
    expect(await seenIds.ids()).toEqual(['a', 'b', 'c', 'd'])
    expect([...(await seenIds.repeated())].sort()).toEqual(['a', 'b', 'c'])
  })

  test('of an earlier scan of the session are forgotten', async () => {
    const earlier = await openSeenIds(rig.session)
    earlier.add('x')
    expect(await earlier.count()).toBe(1)
    const seenIds = await openSeenIds(rig.session)
    expect(await seenIds.count()).toBe(0)
    expect(await seenIds.ids()).toEqual([])
  })

  test('are moved out of memory at ten thousand, and not before', async () => {
    const seenIds = await openSeenIds(rig.session)
    const written = async () => (await rig.rows('select from pg_temp.seen')).length
    for (let at = 0; at < 9_999; at++) seenIds.add(`id${at}`)
    await seenIds.flushIfFull()
    expect(await written()).toBe(0)
    seenIds.add('the last')
    await seenIds.flushIfFull()
    expect(await written()).toBe(10_000)
    await seenIds.flushIfFull()
    expect(await seenIds.count()).toBe(10_000)
  })
})

describe('the missed ids of a scan', () => {
  let rig: Rig
  let seenIds: SeenIds
  const place = () => ({ teamId: rig.teamId, stream: 'patients', table: 'patients' }) as const
  /** When the scan began, on the service's clock, which is ours here. */
  let since = ago(0)

  beforeEach(async () => {
    rig = await openRig()
  })
  afterEach(() => rig[Symbol.asyncDispose]())

  async function begin() {
    seenIds = await openSeenIds(rig.session)
    since = ago(0)
  }
  const later = (micros: number) => instantOf(microsOf(since) + micros)
  const missed = async (limit = 100) => await seenIds.missing(place(), since, limit)

  test('are those stored live before it that are in none of its pages, of its own team and stream', async () => {
    await rig.hold(
      'patients',
      ['gone', 'seen', 'deleted'].map((id) => patient(id)),
      ago(60),
    )
    await rig.hold(
      'patients',
      ['of-others', 'gone'].map((id) => patient(id)),
      ago(60),
      rig.otherId,
    )
    await rig.hold('forms', [{ id: 'a-form', questions: [] }], ago(60))
    const taken = await takeWhole(rig.session, patients, rig.teamId)
    const made = { teamId: rig.teamId, stream: 'patients', observedAt: ago(30) } as const
    await loadEnvelopes(rig.session, patients, [tombstoneEnvelope('deleted', made)], { mode: 'merge', taken })
    await begin()
    seenIds.add('seen')
    expect(await missed()).toEqual({ count: 1, ids: ['gone'] })
    expect(await countLive(rig.session, place())).toBe(2)
    expect(await countLive(rig.session, { teamId: rig.otherId, stream: 'patients' })).toBe(2)
    expect(await countLive(rig.session, { teamId: rig.teamId, stream: 'forms' })).toBe(1)
    seenIds.add('gone')
    expect(await missed()).toEqual({ count: 0, ids: [] })
  })

  test('are counted completely, and listed in order up to the limit', async () => {
    await rig.hold(
      'patients',
      ['d', 'b', 'a', 'c'].map((id) => patient(id)),
      ago(60),
    )
    await begin()
    seenIds.add('a')
    expect(await missed(2)).toEqual({ count: 3, ids: ['b', 'c'] })
    expect(await missed(3)).toEqual({ count: 3, ids: ['b', 'c', 'd'] })
  })

  const DAY = 86_400_000_000
  test.each<[string, number, boolean, boolean]>([
    ['read a microsecond before the scan began', -1, false, true],
    ['read when the scan began', 0, false, false],
    ['read while it ran', 5_000_000, false, false],
    ['read while it ran by its stamp, and yet written before', 5_000_000, true, true],
    ['read a day after it began, which no clock that is right says', DAY, false, false],
    ['read more than a day after it began, by a clock that was wrong', DAY + 1, false, true],
  ])('%s: missing %#', async (_, offset, writtenBefore, missing) => {
    if (!writtenBefore) await begin()
    since = ago(0)
    await rig.hold('patients', [patient('p')], later(offset))
    if (writtenBefore) {
      const began = since
      await begin()
      since = began
    }
    // The same record of another team, written long before, does not count.
    await rig.hold('patients', [patient('p')], later(offset), rig.otherId)
    await rig.rows(`update intake.patients set _loaded_at = '2020-01-01' where team_id = $1`, [rig.otherId])
    expect((await missed()).ids).toEqual(missing ? ['p'] : [])
  })
})

describe('summaries', () => {
  let rig: Rig
  let seenIds: SeenIds
  beforeEach(async () => {
    rig = await openRig()
    seenIds = await openSeenIds(rig.session)
  })
  afterEach(() => rig[Symbol.asyncDispose]())

  const STAMP = '2026-01-01T00:00:00Z'
  const summary = (id: string, more: object = { updated_at: STAMP }): Envelope =>
    recordEnvelope({ id, ...more }, { teamId: rig.teamId, stream: 'patients', observedAt: ago(10) })
  const place = () => ({ teamId: rig.teamId, stream: 'patients' }) as const
  const unchanged = async (...summaries: readonly Envelope[]) =>
    [...(await seenIds.unchangedSummaries(place(), summaries))].sort()
  const keep = async (...summaries: readonly Envelope[]) => {
    for (const each of summaries) seenIds.addSummary(each)
    await seenIds.keepSummaries(place())
  }
  const entries = () =>
    rig.rows<{ id: string; hash: string; xmin: string; team_id: number; stream: string }>(
      `select team_id, stream, id, encode(hash, 'hex') as hash, xmin::text from intake_raw.list_entries order by team_id, stream, id`,
    )

  test('that were kept are unchanged while their record is stored live; others are not', async () => {
    await rig.hold(
      'patients',
      ['same', 'changed', 'undated', 'deleted', 'new'].map((id) => patient(id)),
      ago(60),
    )
    await keep(summary('same'), summary('changed'), summary('deleted'), summary('undated', {}))
    const taken = await takeWhole(rig.session, patients, rig.teamId)
    const made = { teamId: rig.teamId, stream: 'patients', observedAt: ago(5) } as const
    await loadEnvelopes(rig.session, patients, [tombstoneEnvelope('deleted', made)], { mode: 'merge', taken })
    const asked = [
      summary('same'),
      summary('changed', { updated_at: '2026-01-02T00:00:00Z' }),
      summary('undated', {}),
      summary('deleted'),
      summary('new'),
      summary('unknown'),
    ]
    expect(await unchanged(...asked)).toEqual(['same'])
    expect(await unchanged()).toEqual([])
    expect(await unchanged(summary('undated', {}))).toEqual([])
  })

  test('of another team or stream do not count', async () => {
    await rig.hold('patients', [patient('p')], ago(60))
    await rig.hold('patients', [patient('p')], ago(60), rig.otherId)
    await rig.hold('forms', [{ id: 'p', questions: [] }], ago(60))
    seenIds.addSummary(summary('p'))
    await seenIds.keepSummaries({ teamId: rig.otherId, stream: 'patients' })
    seenIds.addSummary(summary('p'))
    await seenIds.keepSummaries({ teamId: rig.teamId, stream: 'forms' })
    expect(await unchanged(summary('p'))).toEqual([])
    expect(await entries()).toHaveLength(2)
  })

  test('are kept only for records that are loaded, without a waiting or discarded dead letter', async () => {
    const ids = ['alive', 'waiting', 'discarded', 'resolved', 'of-others', 'of-forms']
    await rig.hold(
      'patients',
      [...ids, 'deleted'].map((id) => patient(id)),
      ago(60),
    )
    const taken = await takeWhole(rig.session, patients, rig.teamId)
    const made = { teamId: rig.teamId, stream: 'patients', observedAt: ago(5) } as const
    await loadEnvelopes(rig.session, patients, [tombstoneEnvelope('deleted', made)], { mode: 'merge', taken })
    const deadLetterOf = (recordId: string) => [{ recordId, origin: 'run:1 page:1', reason: 'r', body: '{}' }]
    for (const id of ['waiting', 'discarded', 'resolved'])
      await storeDeadLetters(rig.session.db, { ...place(), runId: '1' }, deadLetterOf(id))
    for (const status of ['discarded', 'resolved'])
      await rig.rows(
        'update intake_ops.dead_letters set status = $1, settled_at = now() where record_id = $1',
        [status],
      )
    await storeDeadLetters(
      rig.session.db,
      { teamId: rig.otherId, stream: 'patients', runId: '1' },
      deadLetterOf('of-others'),
    )
    await storeDeadLetters(
      rig.session.db,
      { teamId: rig.teamId, stream: 'forms', runId: '1' },
      deadLetterOf('of-forms'),
    )
    await keep(...[...ids, 'deleted', 'never'].map((id) => summary(id)))
    expect((await entries()).map(({ id }) => id)).toEqual(['alive', 'of-forms', 'of-others', 'resolved'])
  })

  test('that are unchanged write nothing; a changed one replaces the kept one', async () => {
    await rig.hold('patients', [patient('a'), patient('b')], ago(60))
    await keep(summary('a'), summary('b'))
    const before = await entries()
    expect(before.map(({ hash }) => hash)).toEqual([summary('a'), summary('b')].map((s) => s.content!.hash))
    await keep(summary('a'))
    seenIds = await openSeenIds(rig.session)
    await keep(summary('a'), summary('b', { updated_at: '2026-01-03T00:00:00Z' }))
    const after = await entries()
    expect(after[0]).toEqual(before[0])
    expect(after[1]!.hash).toBe(summary('b', { updated_at: '2026-01-03T00:00:00Z' }).content!.hash)
  })

  test('of a record that is listed twice are one, the same in any order', async () => {
    await rig.hold('patients', [patient('a')], ago(60))
    const two = [summary('a'), summary('a', { updated_at: '2026-01-03T00:00:00Z' })] as const
    const kept: string[] = []
    for (const order of [two, two.toReversed()]) {
      seenIds = await openSeenIds(rig.session)
      await keep(...order)
      kept.push((await entries())[0]!.hash)
    }
    expect(kept[0]).toBe(kept[1])
  })

  test('of an earlier scan of the session are forgotten', async () => {
    await rig.hold('patients', [patient('a')], ago(60))
    for (let at = 0; at < 10_000; at++) seenIds.addSummary(summary('a'))
    await seenIds.flushIfFull()
    seenIds = await openSeenIds(rig.session)
    await seenIds.keepSummaries(place())
    expect(await entries()).toEqual([])
  })

  test('are moved out of memory at ten thousand too', async () => {
    const written = async () => (await rig.rows('select from pg_temp.summaries')).length
    const one = summary('a')
    for (let at = 0; at < 9_999; at++) seenIds.addSummary(one)
    await seenIds.flushIfFull()
    expect(await written()).toBe(0)
    seenIds.addSummary(one)
    await seenIds.flushIfFull()
    expect(await written()).toBe(10_000)
  })
})
