/** Records gathered into batches: size, mode, dropped and counted records, and when a reader waits. */
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { Envelope, StreamName } from '../../../src/core/envelope.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import type { Instant } from '../../../src/core/time.ts'
import { openBatcher } from '../../../src/extract/scan/batcher.ts'
import { emptyTally, type Source } from '../../../src/extract/source.ts'
import { type LoadResult, loadBatch } from '../../../src/load/merge/load.ts'
import { type OpenLoaders, openLoaders } from '../../../src/load/merge/loaders.ts'
import type { DeadLetter } from '../../../src/normalize/read-record.ts'
import { recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'
import { ago, notingLoad, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
/** One at a time, so that batches are loaded in order. */
let single: OpenLoaders
beforeAll(async () => {
  rig = await openRig()
  single = openLoaders({ url: rig.url, clock: systemClock, count: 1 })
})
afterAll(async () => {
  await single.close()
  await rig[Symbol.asyncDispose]()
})

/** Ids are distinct between tests. */
let nth = 0
beforeEach(() => {
  nth += 1
})
const name = (id: string | number) => `t${nth}-${id}`

const made = (observedAt: Instant, stream: StreamName = 'patients') =>
  ({ teamId: rig.teamId, stream, observedAt, origin: 'run:1 page:1' }) as const

const person = (id: string | number, more: object = {}, observedAt = ago(10)): Envelope =>
  recordEnvelope({ id: name(id), first_name: 'A', ...more }, made(observedAt))

const people = (count: number) => Array.from({ length: count }, (_, at) => person(at))

const deadLetter = (id: string): DeadLetter => ({
  recordId: name(id),
  origin: 'run:1',
  reason: 'r',
  body: '{}',
})

const inTable = () =>
  rig.rows<{ id: string; first_name: string }>(
    `select id, first_name from intake.patients where starts_with(id, $1) order by id`,
    [`t${nth}-`],
  )

async function open(mode: Parameters<typeof openBatcher>[1], over: Partial<Source> = {}) {
  const noting = notingLoad()
  const source = await rig.source('patients', { load: noting.load, ...over })
  return { source, batches: noting.batches, batcher: openBatcher(source, mode) }
}

test('three hundred changed records are loaded at once while no other batch is, and gathered while one is', async () => {
  let isFree = () => {}
  const free = new Promise<void>((resolve) => {
    isFree = resolve
  })
  const noting = notingLoad()
  const load: Source['load'] = async (...batch) => {
    const result = await noting.load(...batch)
    await free
    return result
  }
  let compared = 0
  const loaders = {
    ready: rig.loaders.ready,
    run: <Result>(work: Parameters<typeof rig.loaders.run<Result>>[0]) =>
      rig.loaders.run(work).finally(() => {
        compared += 1
      }),
  }
  const { batcher, source } = await open('skip-unchanged', { load, loaders })
  const sizes = () => noting.batches.map(({ ids }) => ids.length)
  const all = people(650)
  await batcher.add(all.slice(0, 300), [])
  await expect.poll(sizes).toEqual([300])
  await batcher.add(all.slice(300, 600), [])
  await expect.poll(() => compared).toBe(2)
  // Gathered in many turns.
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate)
  await batcher.add(all.slice(600), [])
  const done = batcher.finish()
  isFree()
  await done
  expect(sizes()).toEqual([300, 350])
  expect(source.tally).toMatchObject({ changed: 650 })
})

test('records of small pages are compared a hundred at once, and the rest at the end', async () => {
  let works = 0
  const loaders = {
    ready: single.ready,
    run: <Result>(work: Parameters<typeof single.run<Result>>[0]) => {
      works += 1
      return single.run(work)
    },
  }
  const { batcher, source } = await open('skip-unchanged', { loaders })
  const found: number[] = []
  for (const from of [0, 40, 80, 120]) {
    await batcher.add(people(160).slice(from, from + 40), [])
    found.push(works)
  }
  expect(found).toEqual([0, 0, 1, 1])
  await batcher.finish()
  expect(source.tally).toMatchObject({ changed: 160, unchanged: 0 })
  // Compared once more, and loaded.
  expect(works).toBe(3)
})

describe('a batch', () => {
  test('has at most 2,500 records; the rest is loaded at the end', async () => {
    const { batcher, batches, source } = await open('straight')
    await batcher.add(people(2_499), [])
    await batcher.add([person('more'), person('over')], [])
    await expect.poll(() => batches.map(({ ids }) => ids.length)).toEqual([2_500])
    expect(await batcher.finish()).toEqual([])
    expect(batches.map(({ ids }) => ids.length)).toEqual([2_500, 1])
    expect(source.tally).toMatchObject({ changed: 2_501, unchanged: 0 })
    expect(await inTable()).toHaveLength(2_501)
  })

  test('is sent once its records have four million bytes', async () => {
    const { batcher, batches } = await open('straight')
    const large = (id: number) => person(id, { notes: 'x'.repeat(900_000) })
    for (let id = 0; id < 6; id++) await batcher.add([large(id)], [])
    await batcher.finish()
    expect(batches.map(({ ids }) => ids.length).sort()).toEqual([1, 5])
  })

  test('contains each key once, in any input, and every record is loaded', async () => {
    const ids = fc.array(fc.nat(4), { minLength: 1, maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(ids, async (came) => {
        nth += 1
        const { batcher, batches } = await open('merge')
        await batcher.add(
          came.map((id, at) => person(id, { first_name: `${at}` }, ago(100 - at))),
          [],
        )
        await batcher.finish()
        for (const batch of batches) expect(new Set(batch.ids).size).toBe(batch.ids.length)
        expect(batches.flatMap((batch) => batch.ids).sort()).toEqual(came.map(name).sort())
        const last = [...new Set(came)]
          .sort()
          .map((id) => ({ id: name(id), first_name: `${came.lastIndexOf(id)}` }))
        expect(await inTable()).toEqual(last)
      }),
      { numRuns: 25 },
    )
  })

  test.each(['straight', 'merge'] as const)('of mode %s is loaded so', async (mode) => {
    const { batcher, batches } = await open(mode)
    await batcher.add([person(1)], [])
    await batcher.finish()
    expect(batches.map((batch) => batch.mode)).toEqual([mode])
  })

  test('is not cut short by a record that was in an earlier one', async () => {
    const { batcher, batches } = await open('straight')
    const all = people(2_520)
    await batcher.add(all.slice(0, 2_500), [])
    await batcher.add([...all.slice(0, 10), ...all.slice(2_500)], [])
    await batcher.finish()
    expect(batches.map(({ ids }) => ids.length)).toEqual([2_500, 30])
  })

  test('of compared records is loaded straight if the warehouse has none of them; changed and deleted ones are merged', async () => {
    await rig.hold('patients', [{ id: name('changed') }, { id: name('deleted') }], ago(60))
    await rig.rows(`update intake_raw.records set deleted = true, payload = null where id = $1`, [
      name('deleted'),
    ])
    const { batcher, batches } = await open('skip-unchanged')
    await batcher.add(
      [person('new'), person('changed'), person('deleted'), person('more')],
      [deadLetter('x')],
    )
    await batcher.finish()
    expect(batches.toSorted((a, b) => a.mode.localeCompare(b.mode))).toEqual([
      { mode: 'merge', ids: [name('changed'), name('deleted')], deadLetters: [] },
      { mode: 'straight', ids: [name('new'), name('more')], deadLetters: [name('x')] },
    ])
    expect(await inTable()).toHaveLength(4)
  })

  test('of new records is complete, and the rest of it as the source shows it, when an event stores one of them meanwhile', async () => {
    const load: Source['load'] = async (session, batch, mode) => {
      await rig.hold('patients', [{ id: name('b'), first_name: 'from an event' }], ago(5))
      // Storing it took the slice.
      await rig.rows(`update intake_ops.checkpoints set epoch = epoch - 1 where team_id = $1`, [rig.teamId])
      return loadBatch(session, batch, mode)
    }
    const source = await rig.source('patients', { load })
    const batcher = openBatcher(source, 'skip-unchanged')
    await batcher.add([person('a'), person('b'), person('c')], [])
    await batcher.finish()
    expect(await inTable()).toEqual([
      { id: name('a'), first_name: 'A' },
      { id: name('b'), first_name: 'from an event' },
      { id: name('c'), first_name: 'A' },
    ])
  })

  test('includes the dead letters before it, once; remaining ones are sent alone', async () => {
    const { batcher, batches, source } = await open('merge', { loaders: single })
    await batcher.add([person(1)], [deadLetter('a'), deadLetter('b')])
    // A repeated key ends the batch.
    await batcher.add([person(1)], [])
    await batcher.finish()
    await batcher.add([], [deadLetter('c')])
    await batcher.finish()
    expect(batches.map(({ deadLetters }) => deadLetters)).toEqual([[name('a'), name('b')], [], [name('c')]])
    expect(batches[2]!.ids).toEqual([])
    expect(source.tally.deadLetters).toBe(3)
  })

  test('is not sent without records', async () => {
    const { batcher, batches } = await open('skip-unchanged')
    await batcher.add([], [])
    expect(await batcher.finish()).toEqual([])
    expect(batches).toEqual([])
  })
})

describe('an unchanged record', () => {
  test('is dropped and counted when unchanged records are skipped, before it fills a batch', async () => {
    await rig.hold(
      'patients',
      [0, 1, 2].map((id) => ({ id: name(id), first_name: 'A' })),
      ago(60),
    )
    const { batcher, batches, source } = await open('skip-unchanged')
    await batcher.add(
      [person(0), person(1, { first_name: 'B' }), person(2), person('new')],
      [deadLetter('x')],
    )
    await batcher.finish()
    expect(batches.flatMap(({ ids }) => ids).sort()).toEqual([name(1), name('new')].sort())
    expect(source.tally).toEqual({ ...emptyTally(), changed: 2, unchanged: 2, deadLetters: 1 })
  })

  test('is not read where its entry is known; else it is read, and compared like any other record', async () => {
    const stored = ['same', 'changed', 'meanwhile'].map((id) => ({ id: name(id), first_name: 'A' }))
    await rig.hold('patients', stored, ago(60))
    const { batcher, batches, source } = await open('skip-unchanged')
    const records = [
      person('same'),
      person('changed', { first_name: 'B' }),
      person('meanwhile'),
      person('new'),
    ]
    const entries = records.map((record) => ({ id: record.id, hash: record.content!.hash, record }))
    // Another content was stored when its entry was looked up, and the same is when the record is compared.
    entries[2]!.hash = '0'.repeat(32)
    const read: string[] = []
    await batcher.addKnown(entries, ({ id, record }) => {
      read.push(id)
      return { kind: 'record', envelope: record }
    })
    await batcher.finish()
    expect(read).toEqual(['changed', 'meanwhile', 'new'].map(name))
    expect(batches.toSorted((a, b) => a.mode.localeCompare(b.mode))).toEqual([
      { mode: 'merge', ids: [name('changed')], deadLetters: [] },
      { mode: 'straight', ids: [name('new')], deadLetters: [] },
    ])
    expect(source.tally).toEqual({ ...emptyTally(), changed: 2, unchanged: 2 })
  })

  test('is merged, and not counted as unchanged, otherwise', async () => {
    await rig.hold('patients', [{ id: name(0), first_name: 'A' }], ago(60))
    const { batcher, batches, source } = await open('merge')
    await batcher.add([person(0)], [])
    await batcher.finish()
    expect(batches.flatMap(({ ids }) => ids)).toEqual([name(0)])
    expect(source.tally.unchanged).toBe(0)
  })

  test('in a log is dropped also when a later entry with its id is stored; in other streams it is not', async () => {
    const entry = (attempts: number) => ({ id: name('e'), attempts, created_at: '2026-01-01T00:00:00Z' })
    await rig.hold('webhook_deliveries', [entry(3)], ago(60))
    const noting = notingLoad()
    const source = await rig.source('webhook_deliveries', { load: noting.load })
    const batcher = openBatcher(source, 'skip-unchanged')
    await batcher.add([recordEnvelope(entry(2), made(ago(5), 'webhook_deliveries'))], [])
    await batcher.finish()
    expect(noting.batches).toEqual([])
    expect(source.tally.unchanged).toBe(1)

    await rig.hold('patients', [{ id: name('p'), first_name: 'new' }], ago(5))
    const other = await open('skip-unchanged')
    await other.batcher.add([person('p', { first_name: 'old' }, ago(60))], [])
    await other.batcher.finish()
    expect(other.batches.flatMap(({ ids }) => ids)).toEqual([name('p')])
  })
})

describe('the end', () => {
  const result = (over: Partial<LoadResult>): LoadResult => ({
    ...{ changed: 0, deleted: 0, erased: 0, deadLetters: 0, problems: 0, conflicts: [] },
    ...over,
  })

  test('sums the results of all batches, and returns each conflicting id once', async () => {
    const results = [
      result({ changed: 1, deleted: 2, erased: 3, deadLetters: 4, problems: 5, conflicts: ['x', 'y'] }),
      result({ changed: 10, deleted: 20, erased: 30, deadLetters: 40, problems: 50, conflicts: ['y', 'z'] }),
    ]
    const { batcher, source } = await open('merge', { load: async () => results.shift()! })
    await batcher.add([person(1), person(1)], [])
    expect([...(await batcher.finish())].sort()).toEqual(['x', 'y', 'z'])
    expect(source.tally).toEqual({
      ...emptyTally(),
      ...{ changed: 11, deleted: 22, erased: 33, deadLetters: 44, problems: 55 },
    })
    expect(await batcher.finish()).toEqual([])
  })

  test('returns the conflicts of its own records, and none of those that are read at the same time', async () => {
    const loadWith = (conflicts: string[]) => ({ load: async () => result({ changed: 1, conflicts }) })
    const one = await open('merge', loadWith(['x', 'y']))
    const none = await open('merge', loadWith([]))
    const other = await open('merge', loadWith(['y', 'z']))
    for (const { batcher, source } of [one, none, other]) {
      // A repeated key sends the first batch.
      await batcher.add([person(1), person(1)], [])
      await expect.poll(() => source.tally.changed).toBe(1)
    }
    const found: string[][] = []
    for (const { batcher } of [none, one, other]) found.push([...(await batcher.finish())].sort())
    expect(found).toEqual([[], ['x', 'y'], ['y', 'z']])
  })

  test('counts tombstones as deleted', async () => {
    await rig.hold('patients', [{ id: name(1) }, { id: name(2) }], ago(60))
    const { batcher, source } = await open('merge')
    await batcher.add([tombstoneEnvelope(name(1), made(ago(5))), person(2, { first_name: 'B' })], [])
    await batcher.finish()
    expect(source.tally).toEqual({ ...emptyTally(), changed: 1, deleted: 1 })
  })

  test('fails with the first failure of any batch, though later ones were loaded; nothing more is accepted', async () => {
    const failures = ['first', 'second'].map(
      (said) => new IntakeError(said, { code: 'internal', verdict: 'stop' }),
    )
    const noting = notingLoad()
    const load: Source['load'] = async (session, batch, mode) => {
      const failure = failures.shift()
      if (failure !== undefined) throw failure
      return noting.load(session, batch, mode)
    }
    const { batcher } = await open('merge', { load, loaders: single })
    await batcher.add([person(1), person(1), person(1), person(2)], [])
    await expect(batcher.finish()).rejects.toMatchObject({ message: 'first' })
    await expect(batcher.add([person(3)], [])).rejects.toMatchObject({ message: 'first' })
    await expect(batcher.finish()).rejects.toMatchObject({ message: 'first' })
    expect((await inTable()).map(({ id }) => id)).not.toContain(name(3))
  })

  test('fails if skipping unchanged records failed', async () => {
    const failing = { ...rig.loaders, run: () => Promise.reject(new Error('no warehouse')) }
    const { batcher } = await open('skip-unchanged', { loaders: failing })
    await batcher.add([person(1)], [])
    await expect(batcher.finish()).rejects.toThrow('no warehouse')
  })
})

test('a reader waits while every loader is busy and a batch is waiting, and continues when one is free', async () => {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const noting = notingLoad()
  const { batcher } = await open('merge', {
    load: async (...args) => {
      await released
      return noting.load(...args)
    },
  })
  // Two loaders, and one batch that waits for them.
  await batcher.add([person(1), person(1), person(1), person(1)], [])
  let added = false
  const adding = batcher.add([person(2)], []).then(() => {
    added = true
  })
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
  expect(added).toBe(false)
  release()
  await adding
  await batcher.finish()
  expect(noting.batches.flatMap(({ ids }) => ids)).toHaveLength(5)
})

test('memory is reused only after its batch was loaded: batches in flight do not share memory', async () => {
  const { batcher } = await open('straight')
  for (let batch = 0; batch < 6; batch++) {
    await batcher.add(
      Array.from({ length: 2_500 }, (_, at) => person(batch * 2_500 + at, { first_name: `b${batch}` })),
      [],
    )
  }
  await batcher.finish()
  const counts = await rig.rows(
    `select first_name, count(*)::int as n from intake.patients where starts_with(id, $1) group by 1 order by 1`,
    [`t${nth}-`],
  )
  expect(counts).toEqual(Array.from({ length: 6 }, (_, batch) => ({ first_name: `b${batch}`, n: 2_500 })))
})
