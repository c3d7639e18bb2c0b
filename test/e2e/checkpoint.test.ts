/** The checkpoint of responses: a run survives a broken one, and never moves it past records that were not read. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { STREAMS } from '../../src/streams/catalogue.ts'
import {
  cursorIn,
  DAY,
  expectResponses,
  newestOf,
  plus,
  readResponses,
  responsesOf,
  setCursor,
  submitAt,
} from './support/answered.ts'
import { documentOf, openScene, type Scene } from './support/scene.ts'
import { liveRows } from './support/tables.ts'

describe('a stored checkpoint', () => {
  let scene: Scene

  beforeAll(async () => {
    scene = await openScene()
    expect(await readResponses(scene)).toMatchObject({ code: 0 })
  })
  afterAll(() => scene[Symbol.asyncDispose]())

  it.each<[string, unknown]>([
    ['is in the future', { newest: '2999-01-01T00:00:00Z' }],
    ['is in the future', { swept_at: '2999-01-01T00:00:00Z' }],
    ['cannot be read', { newest: 'yesterday' }],
    ['cannot be read', { newest: 20260101 }],
    ['cannot be read', 'newest'],
    ['cannot be read', [1]],
  ])(
    'that %s (%j) is reported, everything is read, and the next run continues from a valid one',
    async (what, bad) => {
      const { control } = scene.emulator
      const world = control.world()
      const good = await cursorIn(scene.url)
      await setCursor(
        scene.url,
        typeof bad === 'object' && !Array.isArray(bad) ? { ...good, ...(bad as object) } : bad,
      )
      const old = responsesOf(world).find((one) => one.packet_response === null && !one.is_archived)!
      control.staff().archive(old.id)
      submitAt(world, plus(newestOf(world), -40 * DAY))
      const run = await readResponses(scene)
      const note = `the stored checkpoint ${what}; everything was read`
      expect(run).toMatchObject({ code: 0, status: 'succeeded', note, changed: 2, deleted: 0 })
      await expectResponses(scene)
      expect(await cursorIn(scene.url)).toMatchObject({ newest: newestOf(world) })
      const next = await readResponses(scene)
      expect(next).toMatchObject({ code: 0, note: null, changed: 0 })
      expect(next.asked.after).not.toContain(null)
    },
  )

  it.each<[string, unknown]>([
    ['is in the future', { newest: '2999-01-01T00:00:00Z', swept_at: '2999-01-01T00:00:00Z' }],
    ['cannot be read', { newest: 'yesterday' }],
    ['cannot be read', 17],
  ])('that %s (%j) is reported with --since too, and the next run reads everything', async (what, bad) => {
    await setCursor(scene.url, bad)
    const since = plus(newestOf(scene.emulator.control.world()), -DAY).slice(0, 10)
    const run = await readResponses(scene, '--since', since)
    const note = `the stored checkpoint ${what}; the records from --since on were read, and the next run reads everything`
    expect(run).toMatchObject({ code: 0, status: 'succeeded', note })
    expect(run.stderr).toContain(note)
    expect(run.asked.after).not.toContain(null)
    const next = await readResponses(scene)
    expect(next).toMatchObject({ code: 0, note: null })
    expect(new Set(next.asked.after)).toEqual(new Set([null]))
    await expectResponses(scene)
    expect((await readResponses(scene)).asked.after).not.toContain(null)
  })

  it('is also used, and not changed, by a dry run', async () => {
    const before = await cursorIn(scene.url)
    const run = await readResponses(scene, '--dry-run')
    expect(run).toMatchObject({ code: 0, changed: 0 })
    expect(run.asked.after).not.toContain(null)
    expect(await cursorIn(scene.url)).toEqual(before)
  })

  it('does not move when --since begins after it, so that the records between are read later', async () => {
    const world = scene.emulator.control.world()
    const checkpoint = newestOf(world)
    submitAt(world, plus(checkpoint, 10 * DAY))
    submitAt(world, plus(checkpoint, 30 * DAY))
    const since = plus(checkpoint, 28 * DAY).slice(0, 10)
    const run = await readResponses(scene, '--since', since)
    expect(run).toMatchObject({ code: 0, note: null, changed: 1, deleted: 0 })
    expect(new Set(run.asked.after)).toEqual(new Set([plus(`${since}T00:00:00Z`, -2 * DAY).slice(0, 10)]))
    expect(await cursorIn(scene.url)).toMatchObject({ newest: checkpoint })
    expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 1 })
    await expectResponses(scene)
    expect(await cursorIn(scene.url)).toMatchObject({ newest: newestOf(world) })
  })

  it('does not move when --since begins a day after it, because the service may omit the first hours of that day', async () => {
    const checkpoint = newestOf(scene.emulator.control.world())
    submitAt(scene.emulator.control.world(), plus(checkpoint, 2 * DAY))
    const run = await readResponses(scene, '--since', plus(checkpoint, DAY).slice(0, 10))
    expect(run).toMatchObject({ code: 0, changed: 1 })
    expect(await cursorIn(scene.url)).toMatchObject({ newest: checkpoint })
    expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 0 })
  })

  it('goes back when the newest response was deleted: everything is read once and reported, and the next run is incremental', async () => {
    const { control } = scene.emulator
    const [last] = responsesOf(control.world()).filter(
      ({ submitted_at }) => submitted_at === newestOf(control.world()),
    )
    control.staff().remove(last!.id)
    submitAt(control.world(), plus(last!.submitted_at!, 20 * DAY))
    await readResponses(scene)
    control
      .staff()
      .remove(
        responsesOf(control.world()).find(({ submitted_at }) => submitted_at === newestOf(control.world()))!
          .id,
      )
    const note = 'the service lists nothing for the date filter; everything was read'
    expect(await readResponses(scene)).toMatchObject({ code: 0, note, deleted: 2 })
    await expectResponses(scene)
    const next = await readResponses(scene)
    expect(next).toMatchObject({ code: 0, note: null, changed: 0 })
    expect(next.asked.after).not.toContain(null)
  })

  it('moves when --since begins before it', async () => {
    const world = scene.emulator.control.world()
    const since = plus(newestOf(world), -DAY).slice(0, 10)
    submitAt(world, plus(newestOf(world), DAY))
    expect(await readResponses(scene, '--since', since)).toMatchObject({ code: 0, changed: 1 })
    expect(await cursorIn(scene.url)).toMatchObject({ newest: newestOf(world) })
  })
})

it.each<[string, unknown]>([
  ['is in the future', { scanned_at: '2999-01-01T00:00:00Z', steady: true }],
  ['cannot be read', { scanned_at: 'last night' }],
  ['cannot be read', ['another', 'format']],
])(
  'a checkpoint that %s (%j) is reported for every stream, in the summary and the log, and is replaced by a valid one',
  async (what, bad) => {
    await using scene = await openScene()
    expect(await scene.backfill()).toMatchObject({ code: 0 })
    const before = await liveRows(scene.url)
    await scene.query('update intake_ops.checkpoints set cursor = $1::jsonb', [JSON.stringify(bad)])
    const run = await scene.backfill('--json')
    expect(run.code).toBe(0)
    const note = `the stored checkpoint ${what}; everything was read`
    const notes = Object.entries(documentOf(run).streams).map(([name, figures]) => [name, figures.note])
    expect(notes).toEqual(STREAMS.map(({ name }) => [name, note]))
    expect(run.stderr.split(note)).toHaveLength(STREAMS.length + 1)
    expect(await liveRows(scene.url)).toEqual(before)
    const next = documentOf(await scene.backfill('--json')).streams
    expect(new Set(Object.values(next).map((figures) => figures.note))).toEqual(new Set([null]))
  },
)

it('a dry run on an empty database also reads lists of summaries', async () => {
  await using scene = await openScene({ shape: 'response-summaries+summary-lists' }, { empty: true })
  const run = await readResponses(scene, '--dry-run')
  expect(run).toMatchObject({ code: 0, status: 'succeeded', fetched: 48, changed: 48 })
  expect(run.asked.ids).toHaveLength(48)
})
