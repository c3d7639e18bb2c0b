/** Deletes of one scan: which ids are fetched, which become tombstones, and which wait for approval (law 6). */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { instantOf, microsOf } from '../../../src/core/time.ts'
import { proveDeletes } from '../../../src/extract/scan/deletes.ts'
import type { ScanReport } from '../../../src/extract/scan/scan.ts'
import { openSeenIds } from '../../../src/extract/scan/seen-ids.ts'
import { json } from '../../api/support/service.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

const person = (id: string, more: object = {}) => ({ id, first_name: 'A', ...more })
const persons = (count: number, start = 'p') =>
  Array.from({ length: count }, (_, at) => person(`${start}${String(at).padStart(5, '0')}`))

/** A stable scan that began at this time and saw these ids. */
async function scanned(seen: readonly string[], startedAt = ago(0)): Promise<ScanReport> {
  const seenIds = await openSeenIds(rig.session)
  for (const id of seen) seenIds.add(id)
  return {
    ...{ stable: true, reason: null, startedAt, seenIds, distinct: seen.length, count: seen.length },
    ...{ complete: true, listed: seen.length, conflicting: [], newest: null, stopped: false },
  }
}

async function run(seen: readonly string[], { allow = false, startedAt = ago(0) } = {}) {
  const source = await rig.source('patients')
  source.tally.unchanged = 7
  const report = await proveDeletes(source, rig.session, await scanned(seen, startedAt), allow)
  return { report, source, asked: asked() }
}
const asked = () => rig.service.received.map(({ url }) => url.split('/').at(-1)!).sort()

const state = async (teamId = rig.teamId) => {
  const rows = await rig.rows<{ id: string; gone: boolean }>(
    `select id, _deleted_at is not null as gone from intake.patients where team_id = $1 order by id`,
    [teamId],
  )
  return { gone: rows.filter(({ gone }) => gone).map(({ id }) => id), count: rows.length }
}

test('only ids that a scan missed are fetched; those not found become tombstones, the others are loaded', async () => {
  await rig.hold('patients', [...persons(3), person('alive'), person('changed'), person('seen')], ago(60))
  await rig.hold('patients', persons(3), ago(60), rig.otherId)
  rig.service.records.patients.push(person('alive'), person('changed', { first_name: 'B' }), person('seen'))
  const { report, source, asked } = await run(['seen'])
  expect(report).toEqual({ kind: 'done', conflicting: [] })
  expect(asked).toEqual(['alive', 'changed', 'p00000', 'p00001', 'p00002'])
  expect((await state()).gone).toEqual(['p00000', 'p00001', 'p00002'])
  expect((await state(rig.otherId)).gone).toEqual([])
  // Unchanged ones were counted when the list was read.
  expect(source.tally).toMatchObject({ deleted: 3, changed: 1, unchanged: 7 })
  const [tombstone] = await rig.rows(
    `select origin, deleted, payload from intake_raw.records where id = 'p00000' and team_id = $1`,
    [rig.teamId],
  )
  expect(tombstone).toMatchObject({ origin: 'run:1 proof', deleted: true, payload: null })
})

test('nothing is fetched if nothing is missing', async () => {
  await rig.hold('patients', [person('a')], ago(60))
  expect((await run(['a'])).asked).toEqual([])
})

test('a record read within a second after the scan began is fetched, too: the clock bounds of two runs differ by as much', async () => {
  const startedAt = ago(30)
  const after = (micros: number) => instantOf(microsOf(startedAt) + micros)
  await rig.hold('patients', [person('within')], after(999_999))
  await rig.hold('patients', [person('beyond')], after(1_000_000))
  const source = await rig.source('patients')
  const scan = await scanned([], startedAt)
  // As if both were written during the scan.
  await rig.rows(`update intake.patients set _loaded_at = now() + interval '1 minute'`)
  await proveDeletes(source, rig.session, scan, false)
  expect(asked()).toEqual(['within'])
})

describe('the guard', () => {
  test.each<[number, number, 'done' | 'withheld', number]>([
    [50, 60, 'done', 50],
    [51, 60, 'withheld', 50],
    [55, 1_119, 'done', 55],
    [56, 1_119, 'withheld', 55],
  ])('with %i missing of %i live: %s', async (missing, live, kind, allowed) => {
    const all = persons(live)
    await rig.hold('patients', all, ago(60))
    // Those of another team, and deleted ones, do not count.
    await rig.hold('patients', persons(300, 'q'), ago(60), rig.otherId)
    const { report, asked } = await run(all.slice(missing).map(({ id }) => id))
    if (kind === 'withheld') {
      expect(report).toEqual({ kind, missing, allowed })
      expect(asked).toEqual([])
      expect((await state()).gone).toEqual([])
    } else {
      expect(report).toEqual({ kind, conflicting: [] })
      expect((await state()).gone).toHaveLength(missing)
      const again = await run(all.slice(missing).map(({ id }) => id))
      expect(again.report).toEqual({ kind: 'done', conflicting: [] })
    }
  })

  test('allows approved deletes', async () => {
    const all = persons(60)
    await rig.hold('patients', all, ago(60))
    expect((await run([], { allow: true })).report).toEqual({ kind: 'done', conflicting: [] })
    expect((await state()).gone).toHaveLength(60)
  })
})

test('more than a portion is fetched once each, though every third turns out to exist', async () => {
  const all = persons(1_201)
  await rig.hold('patients', all, ago(60))
  const alive = all.filter((_, at) => at % 3 === 0)
  rig.service.records.patients.push(...alive)
  const { report, source } = await run([], { allow: true })
  expect(report).toEqual({ kind: 'done', conflicting: [] })
  expect(asked()).toEqual(all.map(({ id }) => id))
  expect((await state()).gone).toEqual(all.filter((_, at) => at % 3 !== 0).map(({ id }) => id))
  expect(source.tally).toMatchObject({ deleted: 800, changed: 0, unchanged: 7 })
})

test('conflicts of every portion are reported', async () => {
  await rig.hold('patients', [person('a'), person('d')], ago(-7_200))
  await rig.hold('patients', [person('b'), person('c')], ago(60))
  const scan = await scanned([])
  const portions: number[] = []
  const missing: ScanReport['seenIds']['missing'] = (place, since, limit) => {
    portions.push(limit)
    return scan.seenIds.missing(place, since, Math.min(limit, 2))
  }
  const source = await rig.source('patients')
  const report = await proveDeletes(
    source,
    rig.session,
    { ...scan, seenIds: { ...scan.seenIds, missing } },
    false,
  )
  expect(report).toEqual({ kind: 'done', conflicting: ['a', 'd'] })
  expect((await state()).gone).toEqual(['b', 'c'])
  expect(portions).toEqual([1, 500, 500])
})

test('a failing fetch becomes a dead letter, and no tombstone', async () => {
  await rig.hold('patients', [person('a'), person('b')], ago(60))
  rig.service.interfere = ({ url }, response) => {
    if (!url.endsWith('/a')) return false
    json(response, { detail: 'no' }, 422)
    return true
  }
  const { source } = await run([])
  expect((await state()).gone).toEqual(['b'])
  expect(source.tally).toMatchObject({ deleted: 1, deadLetters: 1 })
})

test('a record stored with a later time than the answer stays, and conflicts', async () => {
  // Stored under a clock that was two hours ahead: the answer of 404 loses to it.
  await rig.hold('patients', [person('a'), person('b')], ago(-7_200))
  const { report } = await run([])
  expect(report).toEqual({ kind: 'done', conflicting: ['a', 'b'] })
  expect((await state()).gone).toEqual([])
})
