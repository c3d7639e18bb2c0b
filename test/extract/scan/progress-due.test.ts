/** When a scan keeps how far it has come: not all the time, and before it has too much in memory. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openScanProgress } from '../../../src/extract/scan/scan-progress.ts'
import { openSeenIds } from '../../../src/extract/scan/seen-ids.ts'
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
})
