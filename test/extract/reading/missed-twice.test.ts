/** Exports that lists miss: deleted at the second list in a row, never at the first, and never more than the guard allows. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { instantOf, microsOf } from '../../../src/core/time.ts'
import { deleteMissedTwice, missedBefore } from '../../../src/extract/reading/read-exports.ts'
import { EVERYTHING } from '../../../src/extract/reading/window.ts'
import type { ScanReport } from '../../../src/extract/scan/scan.ts'
import { openSeenIds } from '../../../src/extract/scan/seen-ids.ts'
import type { SliceOptions } from '../../../src/extract/slice-note.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
let runs = 0
beforeEach(async () => {
  rig = await openRig()
  runs = 0
})
afterEach(() => rig[Symbol.asyncDispose]())

const entry = (id: string) => ({ id, name: id })
const OPTIONS: SliceOptions = { allowMassDelete: false, dry: false, migrated: true, window: EVERYTHING }

/** A run whose stable list contained these; `meanwhile` comes between its list and its deletes. */
async function run(
  listed: readonly string[],
  options: Partial<SliceOptions> = {},
  runId = String(++runs),
  meanwhile = async () => {},
  startedAt = ago(0),
) {
  const source = await rig.source('exports', { runId })
  await meanwhile()
  const seenIds = await openSeenIds(rig.session)
  for (const id of listed) seenIds.add(id)
  const scan: ScanReport = {
    ...{
      stable: true,
      reason: null,
      startedAt,
      seenIds,
      distinct: listed.length,
      count: listed.length,
    },
    ...{ complete: true, listed: listed.length, conflicting: [], newest: null, stopped: false },
  }
  const note = await deleteMissedTwice(source, rig.session, scan, { ...OPTIONS, ...options })
  return { note, tally: source.tally }
}
const gone = async (teamId = rig.teamId) =>
  (
    await rig.rows<{ id: string }>(
      'select id from intake.exports where team_id = $1 and _deleted_at is not null order by id',
      [teamId],
    )
  ).map(({ id }) => id)
const noted = () =>
  rig.rows('select team_id as team, stream, id, run_id::int as run from intake_ops.missed_once order by 1, 3')

test('one that two lists in a row miss is deleted; one that only the first missed is recorded', async () => {
  await rig.hold('exports', ['a', 'b', 'c'].map(entry), ago(60))
  await rig.hold('exports', ['b'].map(entry), ago(60), rig.otherId)
  expect(await run(['a', 'c'])).toMatchObject({
    note: { text: null, attention: false },
    tally: { deleted: 0 },
  })
  expect(await gone()).toEqual([])
  expect(await noted()).toEqual([{ team: rig.teamId, stream: 'exports', id: 'b', run: 1 }])
  expect(await run(['a'])).toMatchObject({ tally: { deleted: 1 } })
  expect(await gone()).toEqual(['b'])
  expect(await gone(rig.otherId)).toEqual([])
  expect(await noted()).toEqual([{ team: rig.teamId, stream: 'exports', id: 'c', run: 2 }])
  const [tombstone] = await rig.rows(`select origin from intake_raw.records where id = 'b' and deleted`)
  expect(tombstone).toEqual({ origin: 'run:2 proof' })
})

test('one that was read less than a second after a list began counts as missed by it: times of two runs may differ by as much', async () => {
  const began = ago(0)
  const after = (micros: number) => instantOf(microsOf(began) + micros)
  await rig.hold('exports', [entry('a'), entry('b')], after(999_999))
  await rig.hold('exports', [entry('later')], after(1_000_000))
  // Written by a warehouse whose clock was ahead: only the times of the service show the order.
  await rig.rows(`update intake.exports set _loaded_at = now() + interval '1 hour'`)
  await run(['b'], {}, '1', async () => {}, began)
  expect(await noted()).toEqual([{ team: rig.teamId, stream: 'exports', id: 'a', run: 1 }])
})

test('a worker that has lost its slice notes nothing as missed', async () => {
  await rig.hold('exports', [entry('a')], ago(60))
  const loses = async () => void (await rig.source('exports', { runId: '99' }))
  await expect(run([], {}, '1', loses)).rejects.toMatchObject({ code: 'slice_lost' })
  expect(await noted()).toEqual([])
})

test('one that a list between the two contained is not deleted', async () => {
  await rig.hold('exports', [entry('a')], ago(60))
  await run([])
  await run(['a'])
  expect(await noted()).toEqual([])
  await run([])
  expect(await gone()).toEqual([])
  expect(await noted()).toMatchObject([{ id: 'a', run: 3 }])
})

test('the same run missing it again is one list, however often its slice is read', async () => {
  await rig.hold('exports', [entry('a')], ago(60))
  await run([], {}, '7')
  await run([], {}, '7')
  expect(await gone()).toEqual([])
  expect(await noted()).toMatchObject([{ id: 'a', run: 7 }])
})

test('misses of another team or stream do not count', async () => {
  await rig.hold('exports', [entry('a')], ago(60))
  await rig.rows(
    `insert into intake_ops.missed_once (team_id, stream, id, run_id)
     values ($1, 'exports', 'a', 1), ($2, 'webhook_configs', 'a', 1)`,
    [rig.otherId, rig.teamId],
  )
  const source = await rig.source('exports', { runId: '2' })
  expect(await missedBefore(source, rig.session, ['a'])).toEqual([])
  await run([], {}, '2')
  expect(await gone()).toEqual([])
  expect(await noted()).toHaveLength(3)
  await run(['a'], {}, '3')
  // Only its own is removed.
  expect(await noted()).toHaveLength(2)
})

describe('the guard', () => {
  const ids = (count: number) => Array.from({ length: count }, (_, at) => `e${String(at).padStart(4, '0')}`)

  test('allows fifty without approval, and no more; withheld ones are recorded, and deleted once allowed', async () => {
    await rig.hold('exports', ids(60).map(entry), ago(60))
    await run(ids(60).slice(51))
    const { note } = await run(ids(60).slice(51))
    expect(note).toMatchObject({ attention: true, text: expect.stringContaining('51 exports are missing') })
    expect(await gone()).toEqual([])
    // As of the run that missed them first.
    expect((await noted()).map(({ run }) => run)).toEqual(Array(51).fill(1))
    await run(ids(60).slice(51), { allowMassDelete: true })
    expect(await gone()).toHaveLength(51)
    expect(await noted()).toEqual([])
  })

  test('reports nothing at fifty of sixty', async () => {
    await rig.hold('exports', ids(60).map(entry), ago(60))
    await run(ids(60).slice(50))
    expect((await run(ids(60).slice(50))).note).toEqual({ text: null, attention: false })
    expect(await gone()).toHaveLength(50)
  })
})

test('a dry run records nothing', async () => {
  await rig.hold('exports', [entry('a')], ago(60))
  await run([], { dry: true })
  expect(await noted()).toEqual([])
})

test('tombstones that lose to the stored state are written again, with the time of the service', async () => {
  // Stored under a clock that was slightly ahead.
  await rig.hold('exports', ['a', 'b', 'c'].map(entry), ago(-1))
  await rig.rows('update intake.exports set _loaded_at = $1', ['2020-01-01'])
  await run(['b'])
  await run(['b'])
  expect(await gone()).toEqual(['a', 'c'])
})
