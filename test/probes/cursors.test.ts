/** Rows that other tools lose at a cursor, each as a run against a service that provokes the loss. */
import { describe, expect, it } from 'vitest'
import {
  cursorIn,
  DAY,
  expectResponses,
  MINUTE,
  newestOf,
  plus,
  readResponses,
  submitAt,
} from '../e2e/support/answered.ts'
import { openScene } from '../e2e/support/scene.ts'

/** However the service reads a bound: with its day, without it, or in its own time zone. */
const BOUNDS = ['default', 'bounds-exclusive', 'bounds-zone']

describe.concurrent('the next run loads', () => {
  it.each(BOUNDS)(
    'rows at a window boundary, which exclusive bounds and other time zones omit (%s)',
    async (shape) => {
      await using scene = await openScene({ shape })
      const world = scene.emulator.control.world()
      await readResponses(scene)
      const midnight = `${newestOf(world).slice(0, 10)}T00:00:00.000000Z`
      for (const edge of [-2 * DAY, -1, 0, 1, DAY - 1, DAY]) submitAt(world, plus(midnight, edge))
      expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 6 })
      await expectResponses(scene)
    },
  )

  it('all rows with equal cursors across a page, where a strict comparison keeps only the first page', async () => {
    await using scene = await openScene()
    const world = scene.emulator.control.world()
    await readResponses(scene)
    const tie = plus(newestOf(world), DAY)
    // Two pages and a half at one time; then as many again, at exactly the time of the checkpoint.
    for (let round = 0; round < 2; round++) {
      for (let at = 0; at < 25; at++) submitAt(world, tie)
      expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 25 })
      expect(await cursorIn(scene.url)).toMatchObject({ newest: tie })
    }
    await expectResponses(scene)
  })

  it('a late commit before the cursor, which a cursor without lookback never sees', async () => {
    await using scene = await openScene()
    const world = scene.emulator.control.world()
    await readResponses(scene)
    const checkpoint = newestOf(world)
    for (const late of [-1, -MINUTE, -DAY, -2 * DAY]) submitAt(world, plus(checkpoint, late))
    expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 4 })
    // Later than any lookback: the next full scan finds it.
    submitAt(world, plus(checkpoint, -60 * DAY))
    expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 0 })
    expect(await readResponses(scene, '--full')).toMatchObject({ code: 0, changed: 1 })
    await expectResponses(scene)
  })

  it('a row one microsecond after the cursor, which a cursor in milliseconds skips or repeats for ever', async () => {
    await using scene = await openScene()
    const world = scene.emulator.control.world()
    await readResponses(scene)
    const stamp = plus(`${newestOf(world).slice(0, 19)}.123456Z`, DAY)
    for (const micros of [0, 1, 2]) {
      submitAt(world, plus(stamp, micros))
      expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 1 })
      expect(await cursorIn(scene.url)).toMatchObject({ newest: plus(stamp, micros) })
    }
    expect(plus(stamp, 2).slice(-4)).toBe('458Z')
    await expectResponses(scene)
    const [checkpoint] = await scene.query<{ newest: string }>(
      `select to_char(max(submitted_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as newest from intake.responses`,
    )
    expect(checkpoint!.newest).toBe(plus(stamp, 2))
  })
})

it('a run that fails on its second page keeps the cursor: the next run loads rows from before and after the failure', async () => {
  await using scene = await openScene()
  const { control } = scene.emulator
  const world = control.world()
  await readResponses(scene)
  const before = await cursorIn(scene.url)
  const later = plus(newestOf(world), 10 * DAY)
  for (let at = 0; at < 25; at++) submitAt(world, plus(later, at))
  control.failNext('/v2/responses', 'slow=1:1')
  control.failNext('/v2/responses', 'redirect=1')
  expect(await readResponses(scene)).toMatchObject({ code: 1, status: 'failed' })
  expect(await cursorIn(scene.url)).toEqual(before)
  expect(await readResponses(scene)).toMatchObject({ code: 0 })
  expect(await cursorIn(scene.url)).toMatchObject({ newest: plus(later, 24) })
  await expectResponses(scene)
})

it('a mistyped filter that returns everything is detected, reported, and deletes nothing: the run counts as a full scan', async () => {
  await using scene = await openScene({ shape: 'filters-ignored' })
  const world = scene.emulator.control.world()
  await readResponses(scene)
  submitAt(world, plus(newestOf(world), -90 * DAY))
  submitAt(world, plus(newestOf(world), MINUTE))
  const run = await readResponses(scene)
  const note = 'the service does not keep to the date filter; everything was read'
  expect(run).toMatchObject({ code: 0, note, changed: 2, deleted: 0 })
  await expectResponses(scene)
})
