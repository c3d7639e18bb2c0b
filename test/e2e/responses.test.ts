/** Responses are read from where the last run ended, and none is lost, whatever the service does. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCommand } from '../support/run-command.ts'
import {
  cursorIn,
  DAY,
  expectResponses,
  MINUTE,
  newestOf,
  plus,
  readResponses,
  responsesOf,
  setCursor,
  submitAt,
} from './support/answered.ts'
import { startLittleService } from './support/little-service.ts'
import { documentOf, openScene, openWarehouse, query, type Scene } from './support/scene.ts'
import { rowVersions } from './support/tables.ts'

/** The lookback, plus two days for different bounds and time zones. */
const WIDENED = 4 * DAY

describe('night after night', () => {
  let scene: Scene
  let everything: number

  beforeAll(async () => {
    scene = await openScene()
    everything = Math.ceil(scene.emulator.control.world().responses.size / 10)
  })
  afterAll(() => scene[Symbol.asyncDispose]())

  const world = () => scene.emulator.control.world()
  const staff = () => scene.emulator.control.staff()

  it('the first run reads everything, the next reads from the checkpoint and writes nothing', async () => {
    const first = await readResponses(scene)
    expect(first).toMatchObject({ code: 0, note: null, changed: world().responses.size })
    expect(first.asked).toEqual({ after: Array(everything).fill(null), ids: [] })
    await expectResponses(scene)
    expect(await cursorIn(scene.url)).toMatchObject({ newest: newestOf(world()) })

    const before = await rowVersions(scene.url)
    const second = await readResponses(scene)
    expect(second).toMatchObject({ code: 0, note: null, changed: 0, deleted: 0 })
    const day = plus(newestOf(world()), -WIDENED).slice(0, 10)
    expect(new Set(second.asked.after)).toEqual(new Set([day]))
    expect(second.asked.after.length).toBeLessThan(everything)
    expect(second.asked.ids).toEqual([])
    expect(await rowVersions(scene.url)).toEqual(before)
  })

  it('a response submitted later is loaded, whether sent since or read unsubmitted before, and moves the checkpoint', async () => {
    const open = responsesOf(world()).find((one) => !one.is_submitted && one.packet_response === null)!
    const submitted_at = plus(newestOf(world()), 5 * DAY)
    staff().answer(open.id)
    world().responses.update(open.id, (old) => ({ ...old, is_submitted: true, submitted_at }))
    submitAt(world(), plus(submitted_at, -1))
    expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 2, deleted: 0 })
    await expectResponses(scene)
    expect(await cursorIn(scene.url)).toMatchObject({ newest: newestOf(world()) })
  })

  it('edits, archiving, deletes and new unsubmitted responses are found by --full', async () => {
    const { gone } = changeOldOnes()
    expect(await readResponses(scene)).toMatchObject({ code: 0, changed: 0, deleted: 0 })
    const full = await readResponses(scene, '--full')
    expect(full).toMatchObject({ code: 0, changed: 3, deleted: 1 })
    expect(new Set(full.asked.after)).toEqual(new Set([null]))
    await expectResponses(scene)
    expect(await tombstones()).toEqual([gone])
  })

  it('a normal run reads everything when the last full scan was a week ago', async () => {
    const { gone } = changeOldOnes()
    const cursor = await cursorIn(scene.url)
    await setCursor(scene.url, { ...cursor, swept_at: plus(String(cursor.swept_at), -7 * DAY + MINUTE) })
    expect(await readResponses(scene)).toMatchObject({ changed: 0, deleted: 0 })
    await setCursor(scene.url, { ...cursor, swept_at: plus(String(cursor.swept_at), -7 * DAY) })
    expect(await readResponses(scene)).toMatchObject({ code: 0, note: null, changed: 3, deleted: 1 })
    await expectResponses(scene)
    expect(await tombstones()).toContain(gone)
    const swept = await readResponses(scene)
    expect(swept.asked.after).not.toContain(null)
  })

  /** Three changes and a delete, none of which a filter by submission date shows. */
  function changeOldOnes() {
    const old = responsesOf(world()).filter(
      (one) => one.packet_response === null && (one.submitted_at ?? '9') < plus(newestOf(world()), -30 * DAY),
    )
    const [edited, archived, gone] = old.filter(({ is_archived }) => !is_archived)
    staff().answer(edited!.id)
    staff().archive(archived!.id)
    staff().remove(gone!.id)
    const stamp = plus(newestOf(world()), 1)
    world().responses.create((id) => ({
      ...{ ...edited!, id, is_submitted: false, submitted_at: null, answers: [], matrix_cells: [] },
      ...{ files: [], e_signatures: [], created_at: stamp, updated_at: stamp },
    }))
    return { gone: gone!.id }
  }

  async function tombstones(): Promise<readonly string[]> {
    const rows = await query<{ id: string }>(
      scene.url,
      `select id from intake.responses where _deleted_at is not null and submitted_at is null and not exists
         (select from intake.response_answers where response_id = id)
       intersect select id from intake_raw.records where deleted and stream = 'responses'`,
    )
    return rows.map(({ id }) => id)
  }
})

describe.each([
  ['default', null],
  ['bounds-exclusive', null],
  ['bounds-zone', null],
  ['unknown-parameter-refused', null],
  ['filters-ignored', 'the service does not keep to the date filter; everything was read'],
])('of a service as %s', (shape, note) => {
  it('nothing is lost: not at the edge of the lookback, not with many ties across a page, not when committed late', async () => {
    await using scene = await openScene({ shape })
    const world = scene.emulator.control.world()
    expect(await readResponses(scene)).toMatchObject({ code: 0, note: null })
    const checkpoint = newestOf(world)
    const midnight = `${checkpoint.slice(0, 10)}T00:00:00.000000Z`
    // Committed late, before the checkpoint, by the whole lookback and by parts of it; and at the ends of days.
    for (const late of [-2 * DAY, -DAY, -MINUTE, -1, 0]) submitAt(world, plus(checkpoint, late))
    for (const edge of [-DAY, -1, 0, DAY - 1, DAY]) submitAt(world, plus(midnight, edge))
    for (let at = 0; at < 23; at++) submitAt(world, plus(checkpoint, 3 * DAY))
    const second = await readResponses(scene)
    expect(second).toMatchObject({ code: 0, status: 'succeeded', note, changed: 33, deleted: 0 })
    await expectResponses(scene)
    // One response with the stamp of the checkpoint, and one a microsecond later.
    submitAt(world, newestOf(world))
    submitAt(world, plus(newestOf(world), 1))
    expect(await readResponses(scene)).toMatchObject({ code: 0, note, changed: 2, deleted: 0 })
    await expectResponses(scene)
    const before = await rowVersions(scene.url)
    expect(await readResponses(scene)).toMatchObject({ code: 0, note, changed: 0 })
    expect(await rowVersions(scene.url)).toEqual(before)
  })
})

it('a response of a list of summaries is fetched by id when new or changed, and with --full always', async () => {
  await using scene = await openScene({ shape: 'response-summaries' })
  const { control } = scene.emulator
  const world = control.world()
  const first = await readResponses(scene)
  expect(first).toMatchObject({ code: 0, changed: world.responses.size })
  expect([...first.asked.ids].sort()).toEqual(
    responsesOf(world)
      .map(({ id }) => id)
      .sort(),
  )
  await expectResponses(scene)
  const before = await rowVersions(scene.url)
  const second = await readResponses(scene)
  expect(second).toMatchObject({ code: 0, changed: 0, asked: { ids: [] } })
  expect(await rowVersions(scene.url)).toEqual(before)

  const newest = responsesOf(world).find(({ submitted_at }) => submitted_at === newestOf(world))!
  control.staff().archive(newest.id)
  const created = submitAt(world, plus(newestOf(world), 1))
  const third = await readResponses(scene)
  expect(third).toMatchObject({ code: 0, changed: 2 })
  expect([...third.asked.ids].sort()).toEqual([newest.id, created.id].sort())
  await expectResponses(scene)

  const full = await readResponses(scene, '--full')
  expect(full).toMatchObject({ code: 0, changed: 0 })
  expect([...full.asked.ids].sort()).toEqual(
    responsesOf(world)
      .map(({ id }) => id)
      .sort(),
  )
})

it('the whole list is read while a team has no response', async () => {
  await using scene = await openScene({ responses: 0 })
  const { control } = scene.emulator
  for (let run = 0; run < 2; run++) {
    expect(await readResponses(scene)).toMatchObject({ code: 0, note: null, asked: { after: [null] } })
  }
  const { forms, patients } = control.world()
  control.staff().send({ patient: patients.at(0)!.id, form: forms.at(0)!.id })
  await expect.poll(() => control.world().responses.size).toBe(1)
  expect(await readResponses(scene)).toMatchObject({ changed: 1, asked: { after: [null] } })
  const submitted_at = plus(new Date().toISOString(), -MINUTE)
  control.world().responses.update(control.world().responses.at(0)!.id, (old) => ({
    ...{ ...old, is_submitted: true, submitted_at },
  }))
  expect(await readResponses(scene)).toMatchObject({ changed: 1, asked: { after: [null] } })
  expect((await readResponses(scene)).asked.after).not.toContain(null)
  await expectResponses(scene)
})

it('deletes that wait for approval are proved again by each run, until they are allowed', async () => {
  await using warehouse = await openWarehouse()
  const submitted = new Date(Date.now() - 3_600_000).toISOString()
  const stamps = { created_at: submitted, submitted_at: submitted, updated_at: submitted }
  await using service = await startLittleService()
  service.pageSize = 200
  service.records.responses = Array.from({ length: 120 }, (_, at) => ({
    ...{ id: `r${at}`, form: { id: 'f' }, patient: { id: 'p' }, is_submitted: true, answers: [], ...stamps },
  }))
  const read = async (...words: string[]) => {
    const env = { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' }
    const ended = await runCommand(['backfill', '--streams', 'responses', '--json', ...words], env)
    return { code: ended.code, deleted: documentOf(ended).streams.responses!.deleted }
  }
  expect(await read()).toEqual({ code: 0, deleted: 0 })
  service.records.responses.splice(0, 60)
  // A plain run does not see it, until one has read everything.
  expect(await read()).toEqual({ code: 0, deleted: 0 })
  expect(await read('--full')).toEqual({ code: 4, deleted: 0 })
  expect(await read()).toEqual({ code: 4, deleted: 0 })
  expect(await read('--allow-mass-delete')).toEqual({ code: 0, deleted: 60 })
})
