/** When a scan keeps how far it has come: not all the time, before it has too much in memory, and only by its owner. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openScanProgress } from '../../../src/extract/scan/scan-progress.ts'
import { openSeenIds } from '../../../src/extract/scan/seen-ids.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
let now = systemClock.now()
beforeAll(async () => {
  rig = await openRig()
})
afterAll(() => rig[Symbol.asyncDispose]())

type Progress = Awaited<ReturnType<typeof openScanProgress>>
type Facts = Parameters<Progress['add']>[0]

async function open(): Promise<Progress> {
  const source = await rig.source('patients', { clock: { ...systemClock, now: () => now } })
  const seenIds = await openSeenIds(rig.session)
  return await openScanProgress(source, rig.session, seenIds, { request: 'r', isContinued: false })
}

test.each([
  ['two seconds later', 0, 2_000_000],
  ['two seconds later, if that takes a tenth of one', 100_000, 2_000_000],
  ['twenty times as much later as it takes, if it takes longer', 400_000, 8_000_000],
  ['ten seconds later, however long it takes', 3_000_000, 10_000_000],
])('it is kept again %s', async (_, takes, later) => {
  const progress = await open()
  now += 1_999_999
  expect(progress.isDue()).toBe(false)
  now += 1
  expect(progress.isDue()).toBe(true)
  progress.add({ number: 1 } as Facts, ['a'])
  await progress.keep(async () => {
    now += takes
    return { startedAt: ago(0), newest: null, unsettled: new Set() }
  })
  now += later - 1
  expect(progress.isDue()).toBe(false)
  now += 1
  expect(progress.isDue()).toBe(true)
})

test('it is kept at once where there are two hundred thousand ids', async () => {
  const progress = await open()
  progress.add({ number: 1 } as Facts, Array(199_999).fill('a'))
  expect(progress.isDue()).toBe(false)
  progress.add({ number: 2 } as Facts, ['b'])
  expect(progress.isDue()).toBe(true)
  await progress.keep(async () => ({ startedAt: ago(0), newest: null, unsettled: new Set() }))
  expect(progress.isDue()).toBe(false)
  progress.add({ number: 3 } as Facts, Array(199_999).fill('a'))
  expect(progress.isDue()).toBe(false)
})

test('of pages that are kept together, each is left out whose records are not all stored as it showed them', async () => {
  const progress = await open()
  const erasures = await hashesOf(rig.session.db, rig.teamId)
  for (const id of ['erased', 'erased too'])
    await noteErased(rig.session.db, erasures, id, [{ stream: 'patients', id }])
  const refused = async (id: string, over: object = {}) => {
    const place = { teamId: rig.teamId, stream: 'patients', runId: '1', ...over } as const
    await storeDeadLetters(rig.session.db, place, [
      { recordId: id, origin: 'run:1 page:5', reason: 'r', body: `"${id}"` },
    ])
  }
  await refused('dead')
  // These say nothing about what this run read.
  await refused('dead before', { runId: '0' })
  await refused('dead elsewhere', { teamId: rig.otherId })
  await refused('dead form', { stream: 'forms' })
  await refused('discarded')
  await rig.rows(`update intake_ops.dead_letters set status = 'discarded' where record_id = 'discarded'`)
  const others = ['dead before', 'dead elsewhere', 'dead form', 'discarded']
  const ids = ['a', 'erased', null, 'unsettled', 'dead', 'b', 'erased too', ...others, 'a\0b', '\ud800']
  for (const [at, id] of ids.entries()) progress.add({ number: at + 1 } as Facts, [`${at}`, id])
  await progress.keep(async () => ({ startedAt: ago(0), newest: null, unsettled: new Set(['unsettled']) }))
  const kept = () => rig.rows('select page, ids from intake_ops.scan_pages order by page')
  expect(await kept()).toEqual([
    { page: 1, ids: ['0', 'a'] },
    { page: 6, ids: ['5', 'b'] },
    ...others.map((id, at) => ({ page: at + 8, ids: [`${at + 7}`, id] })),
  ])
  expect(await rig.rows('select pages from intake_ops.scans')).toEqual([{ pages: 6 }])
  // Read again, with other results.
  for (const number of [1, 6]) progress.add({ number } as Facts, [`again ${number}`])
  await progress.keep(async () => ({ startedAt: ago(0), newest: null, unsettled: new Set(['again 1']) }))
  expect((await kept()).map(({ page }) => page)).toEqual([6, 8, 9, 10, 11])
  expect(await rig.rows('select pages from intake_ops.scans')).toEqual([{ pages: 5 }])
})

describe('a worker whose slice another has taken over', () => {
  const settled = async () => ({ startedAt: ago(0), newest: null, unsettled: new Set<string>() })
  const kept = () =>
    rig.rows(`select scans.pages, first_page, page, ids, kept_at::text as kept_at from intake_ops.scans
      left join intake_ops.scan_pages using (team_id, stream) order by page`)

  test('leaves the progress of the new owner as it is, which goes on with it', async () => {
    const former = await open()
    former.add({ number: 1 } as Facts, ['of the former'])
    await former.keep(settled)
    const owner = await open()
    owner.add({ number: 1 } as Facts, ['a'])
    owner.add({ number: 2 } as Facts, ['b'])
    await owner.keep(settled)
    const own = await kept()
    expect(own).toMatchObject([
      { pages: 2, page: 1, ids: ['a'] },
      { pages: 2, page: 2, ids: ['b'] },
    ])
    former.add({ number: 2 } as Facts, ['c'])
    former.add({ number: 3 } as Facts, ['d'])
    await expect(former.keep(settled)).rejects.toMatchObject({ code: 'slice_lost' })
    expect(await kept()).toEqual(own)
    owner.add({ number: 3 } as Facts, ['e'])
    await owner.keep(settled)
    expect((await kept()).map(({ page, ids }) => [page, ids])).toEqual([
      [1, ['a']],
      [2, ['b']],
      [3, ['e']],
    ])
  })

  test('keeps no progress for it, though it was the owner when it began to', async () => {
    const former = await open()
    former.add({ number: 1 } as Facts, ['a'])
    const keeping = former.keep(async () => {
      await open()
      return await settled()
    })
    await expect(keeping).rejects.toMatchObject({ code: 'slice_lost' })
    expect(await kept()).toEqual([])
  })
})
